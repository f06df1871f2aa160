// What Envoys and servers may bring about is bounded.

import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { anonymous } from '../access/caller.ts'
import { silentLog } from '../base/log.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import type { PortCall } from '../ports/grpc/port-call.ts'
import { statusCodes, type GrpcStatus } from '../transport/grpc/grpc-status.ts'
import { AdsService } from './ads-service.ts'
import { askOverHttp } from './ask-member.ts'
import { EndpointPicker } from './endpoint-picker.ts'
import { membersAt, parseUpstream } from './fleet-member.ts'
import { pickerService } from './picker-service.ts'
import { decodeXds, encodeXds } from './xds-codec.ts'

const clock = new ManualClock()

/** A call that only notes what is sent to it. */
class NotedCall {
  readonly sent: Buffer[] = []
  status: GrpcStatus | null = null
  readonly backlogBytes = 0
  readonly remoteAddress = ''
  readonly metadata: readonly string[] = []
  onMessage: ((message: Buffer) => void) | null = null
  onClosed: (() => void) | null = null
  allowLargeMessages(): void {}
  messageDone(): void {}
  send({ parts }: { parts: readonly Uint8Array[] }): void {
    this.sent.push(Buffer.concat(parts))
  }
  finish(status: GrpcStatus): void {
    this.status = status
    this.onClosed?.()
  }
}

const begun = (service: AdsService | ReturnType<typeof pickerService>): NotedCall => {
  const call = new NotedCall()
  service.methods[0]?.begin(call as unknown as PortCall, anonymous)
  return call
}

test('1024 Envoys may be connected, and 50000 requests looked at', () => {
  for (const [service, most] of [
    [new AdsService({ log: silentLog, clock }, () => new Map()), 1024],
    [pickerService(new EndpointPicker(), clock), 50_000],
  ] as const) {
    const calls = Array.from({ length: most + 1 }, () => begun(service))
    assert.equal(calls.at(-1)?.status?.code, statusCodes.RESOURCE_EXHAUSTED)
    assert.equal(calls.at(-2)?.status, null)
    calls[0]?.onClosed?.()
    assert.equal(begun(service).status, null)
  }
})

test('a message that is no protobuf ends its call, and nothing else', () => {
  for (const service of [
    new AdsService({ log: silentLog, clock }, () => new Map()),
    pickerService(new EndpointPicker(), clock),
  ]) {
    const call = begun(service)
    call.onMessage?.(Buffer.from([10, 200]))
    assert.equal(call.status?.code, statusCodes.INVALID_ARGUMENT)
  }
})

test('of a body that streams the picker keeps 64 KiB until it goes on without a choice', () => {
  const call = begun(pickerService(new EndpointPicker(), clock))
  const say = (value: Record<string, unknown>): void =>
    call.onMessage?.(encodeXds('envoy.service.ext_proc.v3.ProcessingRequest', value))
  say({ requestHeaders: { endOfStream: false }, protocolConfig: { requestBodyMode: 'FULL_DUPLEX_STREAMED' } })
  const piece = { requestBody: { body: Buffer.alloc(16 * 1024, ' '), endOfStream: false } }
  for (let i = 0; i < 3; i++) say(piece)
  assert.equal(call.sent.length, 0)
  say(piece)
  const answers = call.sent.map((bytes) =>
    Object.keys(decodeXds('envoy.service.ext_proc.v3.ProcessingResponse', bytes)),
  )
  assert.deepEqual(answers.map((keys) => keys.find((key) => key.startsWith('request') && key !== 'requestDrain')), ['requestHeaders', ...Array<string>(4).fill('requestBody')]) // prettier-ignore
})

test('a list of models of more than 8 MiB is not read to its end', async (context) => {
  const server: Server = createServer((_, response) => response.end(`[${' '.repeat(9 * 1024 * 1024)}]`))
  context.after(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const [member] = membersAt(parseUpstream(`http://127.0.0.1:${(server.address() as AddressInfo).port}`), ['127.0.0.1'])
  assert.ok(member !== undefined)
  await assert.rejects(askOverHttp(10_000, {}).models(member), /more than 8388608 bytes/)
  server.closeAllConnections()
})

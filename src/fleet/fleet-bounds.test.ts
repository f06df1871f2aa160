// What Envoys and servers may bring about is bounded.

import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { anonymous } from '../access/caller.ts'
import { silentLog } from '../base/log.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import type { PortCall } from '../ports/grpc/port-call.ts'
import { statusCodes, type GrpcStatus } from '../transport/grpc/grpc-status.ts'
import { AdsService } from './ads-service.ts'
import { askOverHttp } from './ask-member.ts'
import { EndpointPicker } from './endpoint-picker.ts'
import { membersAt, parseUpstream } from './fleet-member.ts'
import { pickerService } from './picker-service.ts'
import { decodeXds, encodeXds, typeUrlOf } from './xds-codec.ts'

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

const textOf = ({ status }: NotedCall): string => status?.message ?? ''

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

test('a body in pieces that say nothing is given back after 256 of them, and all bodies together hold 64 MiB', () => {
  const service = pickerService(new EndpointPicker(), clock)
  const say = (call: NotedCall, value: Record<string, unknown>): void =>
    call.onMessage?.(encodeXds('envoy.service.ext_proc.v3.ProcessingRequest', value))
  const started = (): NotedCall => {
    const call = begun(service)
    say(call, { requestHeaders: { endOfStream: false }, protocolConfig: { requestBodyMode: 'FULL_DUPLEX_STREAMED' } })
    return call
  }
  const piece = (bytes: number): Record<string, unknown> => ({ requestBody: { body: Buffer.alloc(bytes, ' '), endOfStream: false } }) // prettier-ignore
  const empty = started()
  for (let i = 0; i < 255; i++) say(empty, piece(0))
  assert.equal(empty.sent.length, 0)
  say(empty, piece(0))
  assert.equal(empty.sent.length, 257)
  const full = 64 * 1024 - 1
  const calls = Array.from({ length: 1024 }, started)
  for (const call of calls) say(call, piece(full))
  assert.ok(calls.every(({ sent }) => sent.length === 0))
  const late = started()
  say(late, piece(full))
  assert.equal(late.sent.length, 2)
  calls[0]?.onClosed?.()
  const next = started()
  say(next, piece(1))
  assert.equal(next.sent.length, 0, 'the body of a call that is over is held no longer')
})

test('the names that an Envoy has the control plane keep are bounded, also those of all Envoys together', () => {
  const service = new AdsService({ log: silentLog, clock }, () => new Map())
  const typeUrl = typeUrlOf('envoy.config.cluster.v3.Cluster')
  const subscribe = (call: NotedCall, name: string, more: Record<string, unknown> = {}): void =>
    call.onMessage?.(encodeXds('envoy.service.discovery.v3.DeltaDiscoveryRequest', { typeUrl, resourceNamesSubscribe: [name], ...more })) // prettier-ignore
  const begunDelta = (): NotedCall => {
    const call = new NotedCall()
    service.methods[1]?.begin(call as unknown as PortCall, anonymous)
    return call
  }
  const long = (mark: string): string => mark + 'n'.repeat(1024 * 1024 - mark.length)
  const greedy = begunDelta()
  for (const mark of ['a', 'b']) subscribe(greedy, long(mark))
  subscribe(greedy, long('c'), { resourceNamesUnsubscribe: [long('a')] })
  assert.equal(greedy.status, null)
  subscribe(greedy, 'd')
  assert.match(textOf(greedy), /have more than 2097152 characters/)
  const calls = Array.from({ length: 32 }, begunDelta)
  for (const call of calls) for (const mark of ['a', 'b']) subscribe(call, long(mark))
  assert.ok(calls.every(({ status }) => status === null))
  const late = begunDelta()
  subscribe(late, 'a')
  assert.match(textOf(late), /of all Envoys have more than 67108864 characters/)
  calls[0]?.onClosed?.()
  const next = begunDelta()
  subscribe(next, 'a')
  assert.equal(next.status, null)
})

test('refusals of Envoys are told once a second, with the number of those left out', () => {
  const log = new MemoryLog()
  const time = new ManualClock()
  const call = begun(new AdsService({ log, clock: time }, () => new Map()))
  const refuse = (message: string): void =>
    call.onMessage?.(encodeXds('envoy.service.discovery.v3.DiscoveryRequest', { typeUrl: typeUrlOf('envoy.config.cluster.v3.Cluster'), errorDetail: { message } })) // prettier-ignore
  for (let i = 0; i < 1000; i++) refuse(`no ${i}`)
  time.advanceMs(1000)
  refuse('no more')
  assert.deepEqual(log.entries.map(({ fields }) => [fields['reason'], fields['refusals_left_out']]), [['no 0', undefined], ['no more', 999]]) // prettier-ignore
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

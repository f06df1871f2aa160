import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { anonymous } from '../../access/caller.ts'
import { ServerError } from '../../base/server-error.ts'
import { ErrorWording } from '../../model/error-wording.ts'
import { RefusalCounts } from '../../model/refusal-counts.ts'
import { GrpcStatus, statusCodes } from '../../transport/grpc/grpc-status.ts'
import { inferenceMethod } from './grpc-method.ts'
import type { PortCall } from './port-call.ts'

function statusOf(log: MemoryLog, thrown: Error): GrpcStatus | null {
  let status: GrpcStatus | null = null
  const call: Partial<PortCall> = {
    path: '/a.Service/Infer',
    allowCompression: () => undefined,
    allowLargeMessages: () => undefined,
    expectMessage: () => undefined,
    finish: (found) => void (status = found),
  }
  const engine = { wording: new ErrorWording(false), refusals: new RefusalCounts() }
  const method = inferenceMethod({ log, engine }, '/a.Service/Infer', () => {
    throw thrown
  })
  method.begin(call as PortCall, anonymous)
  call.onMessage?.(Buffer.alloc(0))
  return status
}

test('a message that cannot be read is refused in its words, and a fault of the server is logged and told in none', () => {
  const log = new MemoryLog()
  const refused = statusOf(log, ServerError.withoutStack('INVALID_ARG', 'the message has no input'))
  assert.deepEqual([refused?.code, refused?.message], [statusCodes.INVALID_ARGUMENT, 'the message has no input'])
  assert.deepEqual(log.entries, [])
  const failed = statusOf(log, new TypeError("Cannot read properties of undefined (reading 'x')"))
  assert.deepEqual([failed?.code, failed?.message], [statusCodes.INTERNAL, 'internal error of the gRPC front end'])
  assert.deepEqual(log.entries.map(({ level, message }) => [level, message]), [['error', 'gRPC method failed']]) // prettier-ignore
})

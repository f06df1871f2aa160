import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anonymous, makeCaller, type Caller } from '../../access/caller.ts'
import { NamePattern } from '../../access/name-pattern.ts'
import { Rights } from '../../access/rights.ts'
import { silentLog } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import { torchCodec } from '../../protocol/torchserve/torch-messages.ts'
import { TorchserveError } from './torchserve-answers.ts'
import { torchserveInferenceGrpc } from './torchserve-grpc.ts'

const callerOf = (models: string): Caller => {
  const allow = [{ action: 'inference' as const, models: new NamePattern(models) }]
  return makeCaller('api-key', 'web', { rights: new Rights({ allow, deny: [] }) })
}

test('a prediction of a stream is asked for with the rights that its caller has now', () => {
  const models = {
    resolve: () => {
      throw new TorchserveError(404, 'ModelNotFound', 'it is not there')
    },
  }
  const engine = { refusals: { count: () => undefined } }
  const parts = { engine, models, log: silentLog, counts: {} } as unknown as Parameters<typeof torchserveInferenceGrpc>[0] // prettier-ignore
  const stream = torchserveInferenceGrpc(parts).methods.find(({ path }) => path.endsWith('/StreamPredictions2'))
  const told: string[] = []
  const call = {
    allowLargeMessages: () => undefined,
    setPaused: () => undefined,
    messageDone: () => undefined,
    send: ({ parts: bytes }: { readonly parts: readonly Uint8Array[] }) => {
      const { status } = torchCodec.decode('PredictionResponse', Buffer.concat(bytes))
      told.push((status as { message: string }).message)
    },
  } as unknown as PortCall
  stream?.begin(call, callerOf('m'))
  const message = torchCodec.encode('PredictionsRequest', { modelName: 'm' })
  call.onMessage?.(message)
  call.onRenewed?.(callerOf('other'))
  call.onMessage?.(message)
  assert.match(told[0] ?? '', /it is not there/)
  assert.match(told[1] ?? '', /may not use 'inference' of model 'm'/)
})

test('a prediction of a stream that failed before its last piece does not end the one behind it', () => {
  const version = { name: 'm', door: null, version: '1', config: { backend: 'torchserve', maxBatchSize: 0 }, signature: { isDecoupled: true } } // prettier-ignore
  const requests: InferenceRequest[] = []
  const engine = {
    choose: () => version,
    isTracing: false,
    isTurningAway: false,
    expectRequest: () => () => undefined,
    infer: (request: InferenceRequest) => requests.push(request),
    wording: { tell: (reason: unknown) => reason },
    refusals: { count: () => undefined },
  }
  const parts = { engine, models: { resolve: () => '' }, log: silentLog, counts: { answered: () => undefined } } as unknown as Parameters<typeof torchserveInferenceGrpc>[0] // prettier-ignore
  const stream = torchserveInferenceGrpc(parts).methods.find(({ path }) => path.endsWith('/StreamPredictions2'))
  const done: number[] = []
  const messages = [1, 2].map((id) => torchCodec.encode('PredictionsRequest', { modelName: 'm', sequenceId: String(id) })) // prettier-ignore
  const memory = { reserve: () => true, release: () => undefined, refuse: () => '', reuse: () => undefined }
  const call = {
    allowLargeMessages: () => undefined,
    setPaused: () => undefined,
    memoryOf: () => memory,
    messageDone: (message: Buffer) => done.push(messages.indexOf(message)),
    send: () => undefined,
    backlogBytes: 0,
  } as unknown as PortCall
  stream?.begin(call, anonymous)
  call.onMessage?.(messages[0] as Buffer)
  requests[0]?.respond(InferenceResponse.failure(new ServerError('INTERNAL', 'one piece is bad'), false))
  call.onMessage?.(messages[1] as Buffer)
  requests[0]?.respond(InferenceResponse.finalFlag())
  assert.deepEqual(done, [0])
  requests[1]?.respond(InferenceResponse.finalFlag())
  assert.deepEqual(done, [0, 1])
})

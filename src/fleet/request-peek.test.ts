import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeMessage } from '../protocol/grpc/message-codec.ts'
import { factsOfBody, factsOfPath } from './request-peek.ts'

const framed = (message: Buffer): Buffer => {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

const infer = framed(
  encodeMessage('ModelInferRequest', {
    modelName: 'm',
    modelVersion: '3',
    parameters: new Map<string, unknown>([
      ['sequence_id', { int64Param: 42n }],
      ['sequence_end', { boolParam: true }],
    ]),
    rawInputContents: [Buffer.alloc(4096, 7)],
  }),
)

test('the path names model and version', () => {
  assert.partialDeepStrictEqual(factsOfPath('/v2/models/a%2Fb/versions/12/infer?x=1'), { model: 'a/b', version: '12' })
  assert.partialDeepStrictEqual(factsOfPath('/v1/models/m:predict'), { model: 'm', version: '' })
  assert.equal(factsOfPath('/v2/health/ready').model, '')
  assert.equal(factsOfPath('/v2/models/%E0%A4%A/infer').model, '%E0%A4%A')
})

test('the head of a gRPC message is enough, wherever it is cut', () => {
  const of = (head: Buffer): object =>
    factsOfBody('/inference.GRPCInferenceService/ModelInfer', 'application/grpc', head)
  assert.partialDeepStrictEqual(of(infer), { model: 'm', version: '3', sequence: '42', isSequenceEnd: true })
  for (let length = 0; length < infer.length; length++) of(infer.subarray(0, length))
  assert.partialDeepStrictEqual(of(infer.subarray(0, 100)), { model: 'm', sequence: '42' })
  assert.partialDeepStrictEqual(of(Buffer.concat([Buffer.of(1), infer.subarray(1)])), { model: '' })
  const spec = Buffer.from('0a050a03626572', 'hex')
  assert.equal(factsOfBody('/tensorflow.serving.PredictionService/Predict', 'application/grpc', framed(spec)).model, 'ber') // prettier-ignore
})

test('the head of a JSON body is enough', () => {
  const of = (text: string, path = '/v1/chat/completions'): object => factsOfBody(path, 'application/json', Buffer.from(text)) // prettier-ignore
  assert.partialDeepStrictEqual(of('{"model": "llama", "messages": [{"role":"user","content":"Hi'), {
    model: 'llama',
    prompt: '[{"role":"user","content":"Hi',
  })
  const body = '{"parameters":{"sequence_id":7,"sequence_end":true},"inputs":[{"name":'
  assert.partialDeepStrictEqual(of(body, '/v2/models/m/infer'), { model: 'm', sequence: '7', isSequenceEnd: true })
  assert.partialDeepStrictEqual(of('{"sequence_id":0}'), { sequence: '' })
  assert.partialDeepStrictEqual(of('"model'.repeat(20_000)), { model: '' })
})

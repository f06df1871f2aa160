import assert from 'node:assert/strict'
import test from 'node:test'
import { InferenceResponse } from '../../model/inference-response.ts'
import { headerBytes } from './frames.ts'
import { encodeBlsResponse, readResponse } from './response-record.ts'
import { TensorRecordReader } from './tensor-records.ts'

/** An answer of a model has the form of an answer to a model. */
function read(response: InferenceResponse, errorText: string | null = null): InferenceResponse {
  const frame = encodeBlsResponse(7, response, errorText, null)
  return readResponse(frame, headerBytes, new TensorRecordReader(null, []), () => undefined).response
}

test('parameters of more than 4 MiB are an error of their request, and of no other', () => {
  const answerWith = (text: string): InferenceResponse =>
    read(InferenceResponse.of([], { parameters: new Map([['a', text]]) }))
  assert.equal(answerWith('x'.repeat(1000)).parameters?.get('a'), 'x'.repeat(1000))
  const { error, isFinal } = answerWith('x'.repeat(5_000_000))
  assert.equal(isFinal, true)
  assert.equal(error?.code, 'INTERNAL')
  assert.match(error?.message ?? '', /^the parameters of the answer have 5000008 bytes, the maximum is 4194304/)
})

test('of the error of a model 64 KiB are told', () => {
  assert.equal(read(InferenceResponse.of([]), 'e'.repeat(5_000_000)).error?.message, 'e'.repeat(64 * 1024))
})

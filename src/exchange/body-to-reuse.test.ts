import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InferenceResponse } from '../model/inference-response.ts'
import { freeBytes, freeInput } from './body-to-reuse.ts'

const answer = (bytes: Uint8Array): InferenceResponse => ({ outputs: [{ bytes }] }) as unknown as InferenceResponse

test('an input is freed unless somebody may still look at it', () => {
  const free = (isDoneOnAnswer: boolean, isOutput: boolean): number => {
    const input = new Uint8Array(8)
    freeInput(input, { isDoneOnAnswer }, answer(isOutput ? input.subarray(4) : new Uint8Array(8)))
    return input.length
  }
  assert.deepEqual([free(true, false), free(false, false), free(true, true)], [0, 8, 8])
})

test('a view on memory of others is not freed', () => {
  const memory = new Uint8Array(8)
  freeBytes(memory.subarray(4))
  assert.equal(memory.length, 8)
  freeBytes(memory)
  assert.equal(memory.length, 0)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'

import fc from 'fast-check'

import { InferenceResponse } from '../../model/inference-response.ts'
import { emptyModelConfig } from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import { writeInferResponse, type InferResponseContext } from '../../protocol/infer-response-writer.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { ResponseHeadMemo } from './response-head-memo.ts'

const signature = new ModelSignature({ ...emptyModelConfig(), name: 'm' })
const selection = (name: string, isBinary: boolean, classificationCount = 0) => [
  { name, isBinary, classificationCount, sharedMemory: null },
]
const selections = [[], selection('A', true), selection('A', false), selection('A', true, 1), selection('B', true)]

const step = fc.record({
  outputs: fc.constantFrom(...selections),
  id: fc.constantFrom('', 'x'),
  binaryOutputDefault: fc.boolean(),
  hasParameters: fc.constantFrom(false, false, false, true),
  tensors: fc.array(
    fc
      .record({
        name: fc.constantFrom('A', 'B'),
        dataType: fc.constantFrom('UINT8' as const, 'INT8' as const),
        bytes: fc.uint8Array({ maxLength: 4 }),
        isFlat: fc.boolean(),
      })
      .map(({ name, dataType, bytes, isFlat }) => {
        const shape = isFlat ? [bytes.length] : [1, bytes.length]
        return new Tensor(name, dataType, shape, bytes)
      }),
    { maxLength: 2 },
  ),
})

test('a remembered head gives the same answer as writing it, whatever came before', () => {
  const memo = new ResponseHeadMemo()
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 10 }), (steps) => {
      for (const { outputs, id, binaryOutputDefault, hasParameters, tensors } of [...steps, ...steps]) {
        const context: InferResponseContext = {
          modelName: 'm',
          modelVersion: '1',
          id,
          signature,
          outputs,
          binaryOutputDefault,
        }
        const parameters = hasParameters ? new Map([['p', 1n]]) : null
        const response = (): InferenceResponse => InferenceResponse.of(tensors, { parameters })
        for (let i = 0; i < 2; i++) {
          const mine = memo.write(response(), context)
          const plain = writeInferResponse(response(), context)
          assert.equal(mine.head.toString(), plain.head.toString())
          assert.deepEqual(mine.parts, plain.parts)
          assert.equal(mine.isBinary, plain.isBinary)
        }
      }
    }),
    { numRuns: 500 },
  )
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ServerError } from '../../base/server-error.ts'
import { readInferRequest } from './infer-request-reader.ts'
import { encodeMessage } from './message-codec.ts'
import { peekModelName } from './peek-model-name.ts'

const limits = { maxTensors: 16, maxRank: 8, maxParameters: 16, maxIdBytes: 64 }

describe('peekModelName', () => {
  it('finds the model of a usual request', () => {
    const inputs = [{ name: 'INPUT0', datatype: 'FP32', shape: [1, 16] }]
    const request = { modelName: 'digits', id: '7', inputs, rawInputContents: [Buffer.alloc(300)] }
    assert.equal(peekModelName(encodeMessage('ModelInferRequest', request)), 'digits')
    assert.equal(peekModelName(encodeMessage('ModelInferRequest', { ...request, modelVersion: '2' })), null)
    assert.equal(peekModelName(encodeMessage('ModelInferRequest', { ...request, modelName: 'm'.repeat(200) })), null)
  })

  it('never names another model than the reader does', () => {
    const field = fc
      .tuple(fc.constantFrom(10, 18, 26, 42, 50, 58, 13, 66), fc.uint8Array({ maxLength: 4 }))
      .map(([tag, bytes]) => [tag, bytes.length, ...bytes])
    const bytes = fc
      .tuple(fc.array(field, { maxLength: 6 }), fc.uint8Array({ maxLength: 2 }))
      .map(([fields, rest]) => Buffer.from([10, 1, 0x6d, ...fields.flat(), ...rest]))
    fc.assert(
      fc.property(bytes, (message) => {
        const name = peekModelName(message)
        if (name === null) return
        // A message whose insides are wrong is refused by both, with other words.
        try {
          const { modelName, modelVersion } = readInferRequest(message, limits)
          assert.deepEqual([name, ''], [modelName, modelVersion])
        } catch (reason) {
          assert.ok(reason instanceof ServerError && reason.code === 'INVALID_ARG')
        }
      }),
      { numRuns: 2000 },
    )
  })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'

import fc from 'fast-check'

import { emptyModelConfig, type ModelInput } from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import { readInferRequest, type InferReadOptions } from '../../protocol/infer-request-reader.ts'
import type { ParsedInfer } from '../../protocol/parsed-infer.ts'
import { defaultRequestLimits } from '../../../test/fixtures/request-limits.ts'
import { InferHeadMemo } from './infer-head-memo.ts'

const tensor = (name: string): ModelInput =>
  ({
    name,
    dataType: 'TYPE_UINT8',
    dims: [-1],
    reshape: null,
    optional: false,
    allowRaggedBatch: false,
  }) as unknown as ModelInput
const signatureOf = (name: string): ModelSignature =>
  new ModelSignature({ ...emptyModelConfig(), name, input: [tensor('A'), tensor('B')] })
const signature = signatureOf('m')

const outcome = (read: () => ParsedInfer): unknown => {
  try {
    const { inputs, ...rest } = read()
    return { ...rest, inputs: inputs.map(({ bytes, ...input }) => ({ ...input, bytes: [...bytes] })) }
  } catch (reason) {
    return String(reason)
  }
}

const request = fc
  .record({
    a: fc.uint8Array({ maxLength: 9 }),
    b: fc.uint8Array({ maxLength: 9 }),
    id: fc.constantFrom('', '', 'x', 'y'),
    isJson: fc.boolean(),
    // A wrong size, or bytes that nobody claims.
    error: fc.constantFrom(0, 0, 0, 1, -1),
  })
  .map(({ a, b, id, isJson, error }) => {
    const input = (name: string, bytes: Uint8Array, size: number): object => ({
      name,
      shape: [bytes.length],
      datatype: 'UINT8',
      ...(isJson && name === 'A' ? { data: [...bytes] } : { parameters: { binary_data_size: size } }),
    })
    const head = JSON.stringify({ id, inputs: [input('A', a, a.length), input('B', b, Math.max(0, b.length + error))] })
    const body = Buffer.concat([Buffer.from(head), isJson ? Buffer.alloc(0) : a, b])
    return { body, headerLength: Buffer.byteLength(head) }
  })

test('a remembered head reads like a new one, bytes and errors alike', () => {
  const models = [signature, signatureOf('other')]
  const memo = new InferHeadMemo()
  fc.assert(
    fc.property(fc.array(request, { minLength: 1, maxLength: 8 }), (requests) => {
      for (const { body, headerLength } of [...requests, ...requests]) {
        // The same head with other bytes behind it.
        const again = Buffer.from(body)
        for (let i = headerLength; i < again.length; i++) again.writeUInt8(again.readUInt8(i) ^ 0x55, i)
        for (const it of [body, again]) {
          for (const model of models) {
            const options: InferReadOptions = { headerLength, signature: model, limits: defaultRequestLimits }
            assert.deepEqual(
              outcome(() => memo.read(it, options)),
              outcome(() => readInferRequest(it, options)),
            )
          }
        }
      }
    }),
    { numRuns: 300 },
  )
})

test('a remembered head keeps no body alive and shares no tensor between requests', () => {
  const head = JSON.stringify({
    inputs: ['A', 'B'].map((name) => ({ name, shape: [1], datatype: 'UINT8', parameters: { binary_data_size: 1 } })),
  })
  const memo = new InferHeadMemo()
  const options: InferReadOptions = { headerLength: head.length, signature, limits: defaultRequestLimits }
  const bodies = [1, 2, 3].map((value) => Buffer.concat([Buffer.from(head), Buffer.from([value, value + 10])]))
  const inputs = bodies.map((body) => memo.read(body, options).inputs)
  for (const [i, body] of bodies.entries()) {
    assert.deepEqual(
      inputs[i]?.map(({ bytes }) => bytes[0]),
      [i + 1, i + 11],
    )
    assert.ok(inputs[i]?.every(({ bytes }) => bytes.buffer === body.buffer))
  }
})

import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import protobuf from 'protobufjs'
import { InferenceError } from '../inference-error.ts'
import { decodeMessage, encodeMessage } from './json-messages.ts'

const proto = path.join(import.meta.dirname, '../../../proto/grpc_service.proto')
const root = await new protobuf.Root().load(proto, { keepCase: true })
const typeOf = (name: string): protobuf.Type => root.lookupType(`inference.${name}`)

const parameter = fc.oneof(
  fc.boolean().map((bool_param) => ({ bool_param })),
  fc.maxSafeInteger().map((int64_param) => ({ int64_param })),
  fc.string().map((string_param) => ({ string_param })),
  fc.double({ noNaN: true }).map((double_param) => ({ double_param })),
  fc.nat().map((uint64_param) => ({ uint64_param })),
)
// protobufjs itself does not take __proto__ for a key.
const key = fc.string().filter((text) => text !== '__proto__')
const parameters = fc.dictionary(key, parameter, { maxKeys: 3, noNullPrototype: true })
const bytes = fc.uint8Array({ maxLength: 20 })
const shape = fc.array(fc.maxSafeInteger(), { maxLength: 4 })
const response = fc.record({
  model_name: fc.string(),
  model_version: fc.string(),
  id: fc.string({ unit: 'grapheme' }),
  parameters,
  outputs: fc.array(fc.record({ name: fc.string(), datatype: fc.string(), shape, parameters }), { maxLength: 3 }),
  raw_output_contents: fc.array(bytes, { maxLength: 3 }),
})
const request = fc.record({
  model_name: fc.string(),
  model_version: fc.string(),
  id: fc.string(),
  parameters,
  inputs: fc.array(fc.record({ name: fc.string(), datatype: fc.string(), shape, parameters }), { maxLength: 3 }),
  outputs: fc.array(fc.record({ name: fc.string(), parameters }), { maxLength: 3 }),
  raw_input_contents: fc.array(bytes, { maxLength: 3 }),
})

/** Lists in place of bytes, so that both sides compare. */
const plain = (value: unknown): unknown => {
  if (value instanceof Uint8Array) return [...value]
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plain(inner)]))
}

test('what this codec writes, the general library reads', () => {
  const type = typeOf('ModelInferRequest')
  fc.assert(
    fc.property(request, (message) => {
      const decoded = type.decode(Buffer.concat(encodeMessage('ModelInferRequest', message)))
      const asObject = type.toObject(decoded, { longs: Number, defaults: false, arrays: true, objects: true })
      const expected = type.toObject(type.fromObject(message), { longs: Number, arrays: true, objects: true })
      // Defaults that were written explicitly and defaults that were left out are the same thing.
      const filled = (value: object): unknown =>
        plain(type.toObject(type.fromObject(value), { longs: Number, defaults: true }))
      assert.deepEqual(filled(asObject), filled(expected))
    }),
    { numRuns: 300 },
  )
})

test('what the general library writes, this codec reads', () => {
  const type = typeOf('ModelInferResponse')
  fc.assert(
    fc.property(response, (message) => {
      const encoded = type.encode(type.fromObject(message)).finish()
      const decoded = decodeMessage('ModelInferResponse', encoded) as typeof message
      assert.deepEqual(plain(decoded), plain({ ...message, outputs: message.outputs }))
    }),
    { numRuns: 300 },
  )
})

test('integers of 64 bits keep all their digits', () => {
  const parts = encodeMessage('InferParameter', { int64_param: -(2n ** 63n) })
  assert.deepEqual(decodeMessage('InferParameter', Buffer.concat(parts)), { int64_param: -(2n ** 63n) })
  const large = Buffer.concat(encodeMessage('InferParameter', { uint64_param: 2n ** 64n - 1n }))
  assert.deepEqual(decodeMessage('InferParameter', large), { uint64_param: 2n ** 64n - 1n })
})

test('a configuration is read with its defaults, enums by name and oneofs as they are', () => {
  const type = typeOf('ModelConfigResponse')
  const encoded = type.encode(
    type.fromObject({
      config: {
        name: 'm',
        input: [{ name: 'X', data_type: 11, dims: [-1, 4] }],
        dynamic_batching: { preferred_batch_size: [4, 8], priority_queue_policy: { 2: { max_queue_size: 3 } } },
      },
    }),
  )
  const { config } = decodeMessage('ModelConfigResponse', encoded.finish()) as { config: Record<string, unknown> }
  assert.deepEqual([config['name'], config['max_batch_size'], config['sequence_batching']], ['m', 0, undefined])
  assert.deepEqual((config['input'] as object[])[0], {
    name: 'X',
    data_type: 'TYPE_FP32',
    format: 'FORMAT_NONE',
    dims: [-1, 4],
    is_shape_tensor: false,
    allow_ragged_batch: false,
    optional: false,
    is_non_linear_format_io: false,
  })
  const batching = config['dynamic_batching'] as Record<string, Record<string, { max_queue_size: number }>>
  assert.deepEqual(batching['preferred_batch_size'], [4, 8])
  assert.equal(batching['priority_queue_policy']?.['2']?.max_queue_size, 3)
})

test('bytes that are no message are refused, never worse', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (noise) => {
      try {
        decodeMessage('ModelInferResponse', noise)
      } catch (reason) {
        assert.ok(reason instanceof InferenceError, String(reason))
        assert.equal(reason.code, 'PROTOCOL')
      }
    }),
    { numRuns: 3000 },
  )
})

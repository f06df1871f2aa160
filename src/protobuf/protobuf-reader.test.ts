import assert from 'node:assert/strict'
import { test } from 'node:test'

import { readInferRequest } from '../protocol/grpc/infer-request-reader.ts'
import { decodeMessage } from '../protocol/grpc/message-codec.ts'
import { wireFiles, wireMessage } from '../protocol/grpc/wire-schema.ts'
import type { MessageSchema } from './message-schema.ts'
import { MalformedMessage, ProtobufReader, requestReaderLimits } from './protobuf-reader.ts'
import { ProtobufWriter } from './protobuf-writer.ts'

const delimited = (field: number, body: Uint8Array): Buffer => {
  const writer = new ProtobufWriter()
  writer.tag(field, 2)
  writer.raw(body)
  return Buffer.from(writer.finish())
}
const varint = (field: number): Buffer => {
  const writer = new ProtobufWriter()
  writer.integerField(field, 1)
  return Buffer.from(writer.finish())
}
const times = (bytes: Uint8Array, count: number): Buffer => Buffer.alloc(bytes.length * count, bytes)

const limits = { maxTensors: 256, maxRank: 16, maxParameters: 256, maxIdBytes: 1024 }
const most = requestReaderLimits.mostFields
const tooMany = /more than \d+ (fields|parameters)|too many (inputs|outputs|parameters|dimensions)/
const isRefusal = (reason: unknown): boolean => reason instanceof Error && tooMany.test(reason.message)

const requestNames = wireFiles
  .flatMap(({ messages }) => Object.keys(messages))
  .filter((name) => name.endsWith('Request') && name !== 'ModelInferRequest')

test('every message of every service has a limit of fields, however they are spelt', () => {
  assert.ok(requestNames.length > 15)
  for (const name of requestNames) {
    for (const bytes of overfull(wireMessage(name))) {
      assert.throws(() => decodeMessage(name, bytes), isRefusal, name)
    }
  }
  for (const bytes of overfull(wireMessage('ModelInferRequest'))) {
    assert.throws(() => readInferRequest(bytes, limits), isRefusal)
  }
})

/** Each field again and again, each again and again inside of messages, fields that nobody knows, and groups. */
function* overfull(schema: MessageSchema): Generator<Buffer> {
  const count = most * 3
  yield times(varint(99), count)
  yield times(delimited(99, Buffer.alloc(0)), count)
  yield times(Buffer.of(0x9b, 0x06, 0x9c, 0x06), count)
  for (const { number, message, kind, type } of schema.fields) {
    const isContents = type === 'InferTensorContents'
    yield times(delimited(number, Buffer.alloc(0)), count)
    yield times(varint(number), count)
    if (kind === 'map') {
      yield delimited(number, times(delimited(1, Buffer.from('k')), count))
      yield delimited(number, times(delimited(2, Buffer.alloc(0)), count))
    }
    if (message !== null && !isContents) yield delimited(number, times(varint(99), count))
  }
}

test('texts of a message have a limit together, and bytes have none', () => {
  const text = Buffer.alloc(64 * 1024, 'x')
  const load = times(delimited(2, text), 100)
  assert.throws(
    () => decodeMessage('RepositoryModelLoadRequest', load),
    (reason) => reason instanceof MalformedMessage && reason.problem === 'its texts have more than 4194304 bytes',
  )
  const raw = Buffer.concat([delimited(1, Buffer.from('m')), delimited(7, Buffer.alloc(8 * 1024 * 1024))])
  assert.equal(readInferRequest(raw, limits).rawContents[0]?.length, 8 * 1024 * 1024)
})

test('an operator who allows more tensors allows their fields', () => {
  const input = delimited(5, Buffer.concat([delimited(1, Buffer.from('X')), times(varint(3), 16)]))
  const request = times(input, 5000)
  assert.equal(readInferRequest(request, { ...limits, maxTensors: 5000 }).inputs.length, 5000)
})

test('large bytes inside messages are views, and the lengths around them count them', () => {
  const large = Buffer.alloc(20_000, 7)
  const writer = new ProtobufWriter()
  writer.textField(1, 'before')
  writer.nested(2, () => {
    writer.nested(1, () => {
      writer.textField(1, 'x'.repeat(200))
      writer.tag(2, 2)
      writer.rawOrView(large)
      writer.textField(3, 'between')
      writer.fields(large)
    })
    writer.textField(4, 'behind')
  })
  const { parts, byteLength, hasViews } = writer.parts()
  assert.ok(hasViews && parts.filter((part) => part === large).length === 2)
  const bytes = Buffer.concat(parts)
  assert.equal(bytes.length, byteLength)
  const reader = new ProtobufReader(bytes)
  assert.deepEqual([reader.tag(), reader.string(), reader.tag()], [10, 'before', 18])
  assert.equal(reader.lengthEnd(), byteLength)
  assert.equal(reader.tag(), 10)
  const inner = new ProtobufReader(reader.view())
  assert.deepEqual([inner.tag(), inner.string().length, inner.tag()], [10, 200, 18])
  assert.ok(inner.view().equals(large))
  assert.deepEqual([inner.tag(), inner.string()], [26, 'between'])
  assert.ok(inner.bytes.subarray(inner.at).equals(large))
  assert.deepEqual([reader.tag(), reader.string(), reader.at], [34, 'behind', byteLength])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lastOf } from '../../base/run-in-slices.ts'
import { ProtobufReader } from '../../protobuf/protobuf-reader.ts'
import { ProtobufWriter } from '../../protobuf/protobuf-writer.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { TensorProtoReader } from './tensor-proto-reader.ts'
import { elementsToWrite, writeTensorEntry } from './tensor-proto-writer.ts'

type Asked = { maxRank?: number; maxBytes?: number; reserve?: (bytes: number) => void }

function read(bytes: Buffer, limits: Asked = {}): Tensor {
  const all = { maxRank: 8, maxBytes: 1 << 20, reserve: () => undefined, ...limits }
  const reader = new TensorProtoReader('x', bytes, 0, bytes.length, all)
  return reader.readAtOnce() ?? lastOf(reader.readInSteps())
}

function proto(
  type: number,
  shape: readonly number[],
  write: (writer: ProtobufWriter) => void = () => undefined,
): Buffer {
  const writer = new ProtobufWriter()
  write(writer)
  writer.integerField(1, type)
  writer.nested(2, () => {
    for (const size of shape) writer.nested(2, () => writer.integerField(1, size))
  })
  return Buffer.from(writer.finish())
}

test('elements come packed, alone or mixed, in front of the type too', () => {
  const bytes = proto(3, [4], (writer) => {
    writer.integerField(7, -1)
    writer.nested(7, () => {
      writer.varint(2)
      writer.varint(3)
    })
    writer.integerField(7, 4)
  })
  assert.deepEqual([...new Int32Array(new Uint8Array(read(bytes).bytes).buffer)], [-1, 2, 3, 4])
})

test('a list that is short goes on with its last element, an empty one is zeros, a long one is cut', () => {
  const elements = (...values: number[]): Buffer =>
    proto(4, [5], (writer) => {
      for (const value of values) writer.integerField(7, value)
    })
  assert.deepEqual([...read(elements(1, 2)).bytes], [1, 2, 2, 2, 2])
  assert.deepEqual([...read(elements()).bytes], [0, 0, 0, 0, 0])
  assert.deepEqual([...read(elements(1, 2, 3, 4, 5, 6)).bytes], [1, 2, 3, 4, 5])
})

test('texts in tensor_content are lengths and then bytes', () => {
  const bytes = proto(7, [2], (writer) => {
    writer.tag(4, 2)
    writer.raw(Buffer.from([1, 2, 0x61, 0x62, 0x63]))
  })
  assert.deepEqual([...read(bytes).bytes], [1, 0, 0, 0, 0x61, 2, 0, 0, 0, 0x62, 0x63])
  const bad = proto(7, [2], (writer) => {
    writer.tag(4, 2)
    writer.raw(Buffer.from([9, 9]))
  })
  assert.throws(() => read(bad), /tensor parsing error: x/)
})

test('many texts in tensor_content are read in steps, and their lengths are reserved before', () => {
  const count = 100_000
  const bytes = proto(7, [count], (writer) => {
    writer.tag(4, 2)
    writer.raw(Buffer.concat([Buffer.alloc(count, 1), Buffer.alloc(count, 'a')]))
  })
  const reserved: number[] = []
  const limits = { maxRank: 8, maxBytes: 1 << 20, reserve: (size: number) => void reserved.push(size) }
  const reader = new TensorProtoReader('x', bytes, 0, bytes.length, limits)
  assert.equal(reader.readAtOnce(), null)
  const steps = reader.readInSteps()
  let stepCount = 0
  let step = steps.next()
  for (; step.done !== true; step = steps.next()) stepCount++
  assert.deepEqual([stepCount, reserved, step.value.bytes.length], [6, [8 * count], 5 * count])
  assert.deepEqual([...step.value.bytes.subarray(-5)], [1, 0, 0, 0, 0x61])
})

test('what nobody needs in a shape is bounded, and a group is refused', () => {
  const shapeOf = (count: number, part: readonly number[]): Buffer => {
    const writer = new ProtobufWriter()
    writer.integerField(1, 4)
    writer.tag(2, 2)
    writer.raw(Buffer.alloc(part.length * count, Buffer.from(part)))
    return Buffer.from(writer.finish())
  }
  assert.equal(read(shapeOf(1024, [0x28, 0])).shape.length, 0)
  assert.throws(() => read(shapeOf(1025, [0x28, 0])), /its shape has more than 1024 fields/)
  assert.throws(() => read(Buffer.concat([proto(4, [1]), Buffer.from([0xa3, 6, 0x28, 0, 0xa4, 6])])), /it has a group/)
})

test('a shape that is larger than the limit is refused before memory is taken', () => {
  const reserved: number[] = []
  const one = (shape: readonly number[]): Buffer => proto(1, shape, (writer) => {
    writer.tag(5, 5)
    writer.float(1)
  }) // prettier-ignore
  assert.throws(() => read(one([2 ** 31, 2 ** 31])), /at most 1048576/)
  assert.throws(() => read(one([262_145])), /at most 1048576/)
  assert.equal(read(one([262_144]), { reserve: (bytes) => void reserved.push(bytes) }).bytes.length, 1 << 20)
  assert.deepEqual(reserved, [1 << 20])
  const full = (): void => {
    throw new Error('no room')
  }
  assert.throws(() => read(one([1000]), { reserve: full }), /no room/)
  assert.throws(() => read(one(Array.from({ length: 9 }, () => 1))), /dimensions/)
  assert.throws(() => read(proto(8, [1])), /data type 8 is not supported/)
  assert.throws(() => read(proto(1, [-1])), /negative/)
  const texts = proto(7, [1000], (writer) => {
    writer.tag(8, 2)
    writer.raw(Buffer.alloc(2000))
  })
  assert.throws(() => read(texts), /its texts take 2004000 bytes/)
})

test('texts go on with the last one, and those beyond the shape are cut', () => {
  const texts = (size: number, ...values: string[]): Buffer =>
    proto(7, [size], (writer) => {
      for (const value of values) writer.textField(8, value)
    })
  const framed = (...values: string[]): number[] =>
    values.flatMap((value) => [value.length, 0, 0, 0, ...Buffer.from(value)])
  assert.deepEqual([...read(texts(4, 'ab', 'c')).bytes], framed('ab', 'c', 'c', 'c'))
  assert.deepEqual([...read(texts(2)).bytes], framed('', ''))
  assert.deepEqual([...read(texts(2, 'a', 'bc', 'def')).bytes], framed('a', 'bc'))
})

test('what is written is read back, at once and in steps, in both forms', () => {
  const many = Buffer.alloc(160_000)
  for (let i = 0; i < many.length; i++) many[i] = i % 251
  const texts = Buffer.alloc(50_000 * 5)
  for (let i = 0; i < texts.length; i += 5) texts.writeUInt32LE(1, i)
  for (const one of [
    new Tensor('y', 'INT64', [2, 0, 3], new Uint8Array(0)),
    new Tensor('y', 'INT16', [2], new Uint8Array([0xff, 0xff, 1, 0])),
    new Tensor('y', 'FP32', [], new Uint8Array([0, 0, 128, 63])),
    new Tensor('y', 'BYTES', [2], new Uint8Array([1, 0, 0, 0, 97, 0, 0, 0, 0])),
    new Tensor('y', 'BOOL', [3], new Uint8Array([1, 0, 1])),
    new Tensor('y', 'FP32', [200, 200], many),
    new Tensor('y', 'UINT8', [160_000], many),
    new Tensor('y', 'BYTES', [50_000], texts),
  ]) {
    for (const asContent of [false, true]) {
      const writer = new ProtobufWriter()
      writeTensorEntry(writer, 1, one, lastOf(elementsToWrite(one, asContent)), asContent)
      const reader = new ProtobufReader(Buffer.concat(writer.pieces()))
      assert.equal(reader.tag(), 10)
      reader.lengthEnd()
      assert.equal(reader.tag(), 10)
      assert.equal(reader.string(), 'y')
      assert.equal(reader.tag(), 18)
      const again = read(reader.view())
      assert.deepEqual([again.dataType, again.shape], [one.dataType, one.shape])
      assert.ok(Buffer.from(one.bytes).equals(again.bytes))
    }
  }
})

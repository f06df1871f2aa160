import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ProtobufWriter } from '../../protobuf/protobuf-writer.ts'
import { classifyMethod } from './serving-answer.ts'
import { readExampleRequest, readMultiRequest, readPredictRequest } from './serving-request.ts'

const limits = { maxTensors: 4, maxRank: 4, maxParameters: 4, maxIdBytes: 4 }

test('a version and a label are one choice: the last one counts', () => {
  const writer = new ProtobufWriter()
  writer.nested(1, () => {
    writer.textField(1, 'm')
    writer.nested(2, () => writer.integerField(1, 7))
    writer.textField(4, 'stable')
    writer.textField(3, 'serving_default')
  })
  const { spec } = readPredictRequest(writer.finish(), limits)
  assert.deepEqual(spec, { name: 'm', version: '', label: 'stable', signature: 'serving_default' })
})

test('an empty label is a label, and no label is none', () => {
  const labelOf = (write: (writer: ProtobufWriter) => void): string | null => {
    const writer = new ProtobufWriter()
    writer.nested(1, () => write(writer))
    return readPredictRequest(writer.finish(), limits).spec.label
  }
  assert.equal(
    labelOf((writer) => writer.textField(4, '')),
    '',
  )
  assert.equal(
    labelOf((writer) => writer.textField(1, 'm')),
    null,
  )
})

test('more inputs than --max-request-tensors are refused', () => {
  const writer = new ProtobufWriter()
  for (let i = 0; i < 5; i++) writer.nested(2, () => writer.textField(1, `x${i}`))
  assert.throws(() => readPredictRequest(writer.finish(), limits), /--max-request-tensors/)
})

test('a request without a ModelSpec is refused', () => {
  const inputs = new ProtobufWriter()
  inputs.nested(2, () => undefined)
  assert.throws(() => readPredictRequest(inputs.finish(), limits), { message: 'Missing ModelSpec' })
  assert.throws(() => readExampleRequest(Buffer.alloc(0), classifyMethod), { message: 'Missing ModelSpec' })
})

test('256 tasks are the most, and a context is not copied beyond 16 MiB', () => {
  const tasks = (count: number): Buffer => {
    const writer = new ProtobufWriter()
    for (let i = 0; i < count; i++) writer.nested(1, () => writer.textField(2, 'tensorflow/serving/regress'))
    return writer.finish()
  }
  assert.equal(readMultiRequest(tasks(256)).tasks.length, 256)
  assert.throws(() => readMultiRequest(tasks(257)), /more than 256 tasks/)
  const writer = new ProtobufWriter()
  writer.nested(1, () => writer.textField(1, 'm'))
  writer.nested(2, () =>
    writer.nested(2, () => {
      writer.tag(2, 2)
      writer.raw(Buffer.alloc(1024 * 1024))
      for (let i = 0; i < 17; i++) writer.nested(1, () => undefined)
    }),
  )
  assert.throws(() => readExampleRequest(writer.finish(), classifyMethod), /context takes/)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signatureOf } from '../../../test/fixtures/signature-of.ts'
import { lastOf } from '../../base/run-in-slices.ts'
import { ProtobufWriter } from '../../protobuf/protobuf-writer.ts'
import { exampleInputs } from './example-inputs.ts'

const signature = signatureOf('m', 8, [['x', 'INT64', [-1]]], [])

/** One example; a feature is a name and the bytes of its int64_list. */
function exampleOf(features: readonly (readonly [string, Buffer])[], rest = Buffer.alloc(0)): Buffer {
  const writer = new ProtobufWriter()
  writer.nested(1, () => {
    for (const [name, list] of features) {
      writer.nested(1, () => {
        writer.tag(1, 2)
        writer.raw(Buffer.from(name))
        writer.nested(2, () => {
          writer.tag(3, 2)
          writer.raw(list)
        })
      })
    }
  })
  return Buffer.concat([Buffer.from(writer.finish()), rest])
}

const packed = (count: number): Buffer => {
  const writer = new ProtobufWriter()
  writer.tag(1, 2)
  writer.raw(Buffer.alloc(count, 1))
  return Buffer.from(writer.finish())
}

test('examples are read in steps, memory for values is reserved, and what is no input is not kept', () => {
  const reserved: number[] = []
  const examples = [exampleOf([['x', packed(50_000)], ['other', packed(60_000)]])] // prettier-ignore
  const steps = exampleInputs(examples, signature, 1e9, (bytes) => void reserved.push(bytes))
  let stepCount = 0
  let step = steps.next()
  for (; step.done !== true; step = steps.next()) stepCount++
  const [tensor] = step.value
  assert.deepEqual([tensor?.name, tensor?.shape, tensor?.bytes.length], ['x', [1, 50_000], 400_000])
  // 50,000 values are read and then written, 8192 at a time. The other feature is skipped in one piece.
  assert.deepEqual([stepCount, reserved.length], [12, 6])
})

test('fields and values of all examples together are bounded', () => {
  const most = 2_097_152
  const half = exampleOf([['x', packed(most / 2)]])
  assert.throws(() => lastOf(exampleInputs([half, half], signature, 1e9)), /its examples have more than 2097152 fields/)
  const unknown = exampleOf([], Buffer.alloc(2 * (most + 1), Buffer.from([0x28, 0])))
  assert.throws(() => lastOf(exampleInputs([unknown], signature, 1e9)), /more than 2097152 fields/)
})

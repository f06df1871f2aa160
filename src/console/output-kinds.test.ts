import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inputSlots, piecesOf, usualStep } from './input-kinds.ts'
import { firstElement, formsOf, mediaOf, pictureLayout, rgbaOf, wavOf } from './output-kinds.ts'

const output = (
  dataType: 'FP32' | 'UINT8' | 'INT16' | 'BYTES',
  shape: number[],
  bytes: Uint8Array = new Uint8Array(),
) => ({
  dataType,
  shape,
  bytes,
})

/** One element of type BYTES: its length, then itself. */
const element = (text: string): Uint8Array => {
  const bytes = Buffer.from(text, 'latin1')
  const head = Buffer.alloc(4)
  head.writeUInt32LE(bytes.length)
  return Buffer.concat([head, bytes])
}

test('type, shape and first bytes of an output decide how it shows', () => {
  assert.deepEqual(formsOf(output('FP32', [1, 10])), ['bars', 'table'])
  assert.deepEqual(formsOf(output('FP32', [1, 3, 64, 48])), ['image', 'table'])
  assert.deepEqual(formsOf(output('INT16', [1, 16_000])), ['sound', 'table'])
  assert.deepEqual(formsOf(output('UINT8', [4])), ['table'])
  assert.deepEqual(formsOf(output('BYTES', [1], element('plain'))), ['text'])
  assert.deepEqual(formsOf(output('BYTES', [1], element('\u0089PNG\r\n'))), ['image', 'text'])
  assert.deepEqual(formsOf(output('BYTES', [1], element('RIFF\0\0\0\0WAVEfmt '))), ['sound', 'text'])
  assert.equal(mediaOf(Buffer.from('<svg onload=alert(1)>')), null)
})

test('a tensor that is cut off has the bytes that are there', () => {
  assert.equal(firstElement(new Uint8Array(3)).length, 0)
  assert.equal(firstElement(element('abc').subarray(0, 6)).length, 2)
})

test('pixels come out of both orders and all usual ranges', () => {
  const layout = pictureLayout(output('FP32', [3, 8, 8]))
  assert.ok(layout?.isPlanar)
  const red = Float32Array.from({ length: 192 }, (_, i) => (i < 64 ? 1 : 0))
  assert.deepEqual([...rgbaOf(red, layout).subarray(0, 4)], [255, 0, 0, 255])
  const grey = { height: 8, width: 8, channels: 1, isPlanar: false } as const
  assert.deepEqual([...rgbaOf(new Float32Array(64).fill(-1), grey).subarray(0, 4)], [0, 0, 0, 255])
  assert.deepEqual([...rgbaOf(new Uint8Array(64).fill(200), grey).subarray(0, 4)], [200, 200, 200, 255])
})

test('a WAV file has a head of 44 bytes and two bytes for each sample, within their range', () => {
  const file = Buffer.from(wavOf([0, 1, -2], 8000, false))
  assert.equal(file.toString('latin1', 0, 4) + file.toString('latin1', 8, 12), 'RIFFWAVE')
  assert.equal(file.readUInt32LE(24), 8000)
  assert.deepEqual([file.readInt16LE(44), file.readInt16LE(46), file.readInt16LE(48)], [0, 32_767, -32_768])
})

test('a long sound goes in pieces, each after the end of the one before', () => {
  assert.equal(usualStep(576), 512)
  const pieces = piecesOf(Float32Array.of(1, 2, 3, 4, 5), 3, 2).map((piece) => [...piece])
  assert.deepEqual(pieces, [[0, 1, 2], [2, 3, 4], [4, 5, 0]]) // prettier-ignore
})

test('a short row of numbers is offered as numbers first, a small square as a drawing', () => {
  const first = (item: number[]): string | undefined => {
    const metadata = { name: 'm', versions: [], platform: '', inputs: [{ name: 'x', dataType: 'FP32', shape: [-1, ...item] }], outputs: [] } as const // prettier-ignore
    const config = { max_batch_size: 8, input: [], output: [] } as unknown as Parameters<typeof inputSlots>[1]
    return inputSlots(metadata as unknown as Parameters<typeof inputSlots>[0], config, new Map())[0]?.fillings[0]
  }
  assert.deepEqual([[16], [49], [64], [4, 4], [28, 28]].map(first), [
    'numbers',
    'numbers',
    'drawing',
    'drawing',
    'drawing',
  ])
})

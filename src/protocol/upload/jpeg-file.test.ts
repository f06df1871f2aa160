import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasTooManyScans } from './jpeg-file.ts'

const segment = (name: number, content: readonly number[] = []): Buffer =>
  Buffer.from([0xff, name, 0, content.length + 2, ...content])
/** Its data have a byte that looks like a marker, and restarts. */
const scan = Buffer.concat([segment(0xda, [1, 2]), Buffer.from([5, 0xff, 0, 0xff, 0xd0, 0xff, 0xd7, 6, 0xff])])
const jpeg = (...parts: readonly Buffer[]): Buffer => Buffer.concat([Buffer.from([0xff, 0xd8]), ...parts])
const scans = (count: number): Buffer => Buffer.concat(Array.from({ length: count }, () => scan))
const end = Buffer.from([0xff, 0xd9])

test('the scans of a picture are counted, also where its end is missing', () => {
  assert.equal(hasTooManyScans(jpeg(scans(100), end)), false)
  assert.equal(hasTooManyScans(jpeg(scans(101), end)), true)
  assert.equal(hasTooManyScans(jpeg(segment(0xc2, [8]), scans(101))), true)
})

test('those of a small picture in its segments, and of what follows it, do not count', () => {
  const small = segment(0xe1, [...scans(8)])
  assert.equal(
    hasTooManyScans(jpeg(...Array.from({ length: 20 }, () => small), scans(3), end, jpeg(scans(101)))),
    false,
  )
})

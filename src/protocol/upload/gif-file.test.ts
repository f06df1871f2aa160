import assert from 'node:assert/strict'
import { test } from 'node:test'
import { firstGifPicture } from './gif-file.ts'

const head = Buffer.from([...Buffer.from('GIF89a'), 2, 0, 2, 0, 0x80, 0, 0, 255, 0, 0, 0, 0, 255])
const remark = Buffer.from([0x21, 0xfe, 2, 0x2c, 0x2c, 0])
const picture = Buffer.from([0x2c, 0, 0, 0, 0, 2, 0, 2, 0, 0, 2, 3, 0x44, 0x34, 0x05, 0])
const withColours = Buffer.from([0x2c, 0, 0, 0, 0, 2, 0, 2, 0, 0x80, 9, 9, 9, 8, 8, 8, 2, 3, 0x44, 0x34, 0x05, 0])
const end = Buffer.from([0x3b])

test('a GIF ends for the decoder behind its first picture', () => {
  for (const first of [[picture], [remark, picture], [remark, remark, withColours]]) {
    const wanted = Buffer.concat([head, ...first])
    const many = Buffer.concat([wanted, ...Array<Buffer>(1000).fill(picture), end])
    assert.deepEqual(firstGifPicture(many), wanted)
    assert.deepEqual(firstGifPicture(wanted), wanted)
  }
})

test('what is cut short or is no picture goes to the decoder as it is', () => {
  for (const parts of [[], [head], [head, end], [head, remark, Buffer.from('x')]]) {
    const file = Buffer.concat(parts)
    assert.deepEqual(firstGifPicture(file), file)
  }
})

test('the blocks before the end of the first picture are bounded', () => {
  const remarks = (count: number): Buffer => Buffer.concat([head, Buffer.alloc(3 * count, Buffer.from([0x21, 0xfe, 0])), picture]) // prettier-ignore
  assert.equal(firstGifPicture(remarks(1_048_570))?.length, head.length + 3 * 1_048_570 + picture.length)
  assert.equal(firstGifPicture(remarks(1_048_577)), null)
  const pieces = Buffer.concat([head, picture.subarray(0, 11), Buffer.alloc(2 * 1_048_577, 1), end])
  assert.equal(firstGifPicture(pieces), null)
})

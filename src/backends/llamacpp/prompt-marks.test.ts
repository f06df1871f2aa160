import assert from 'node:assert/strict'
import test from 'node:test'
import { marksOf, PromptMarks } from './prompt-marks.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const system = 'You are a helpful assistant. '.repeat(20)

test('the longer the common beginning, the more of a prompt is known', () => {
  const marks = new PromptMarks()
  const share = (text: string): number => marks.knownShare(marksOf(bytes(text)))
  assert.equal(share(system), 0)
  marks.note(marksOf(bytes(`${system}Tell me of Rome.${' more'.repeat(200)}`)))
  assert.equal(share(`${system}Tell me of Rome.${' more'.repeat(200)}`), 1)
  // 580 bytes are common: beginnings of 128, 256 and 512 bytes of 128 to 1024 are known.
  assert.equal(share(`${system}Other words.${' less'.repeat(200)}`), 3 / 4)
  assert.equal(share(`x${system}`), 0)
  assert.equal(share('short'), 0)
})

test('beginnings used longest ago are forgotten: 4,096 are known', () => {
  const marks = new PromptMarks()
  const one = (i: number): number[] => marksOf(bytes(`${i}`.padStart(128)))
  for (let i = 0; i < 4096; i++) marks.note(one(i))
  marks.note(one(0))
  marks.note(one(5000))
  assert.deepEqual([0, 1, 2, 5000].map((i) => marks.knownShare(one(i))), [1, 0, 1, 1]) // prettier-ignore
})

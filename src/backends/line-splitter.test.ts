import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lineSplitter } from './line-splitter.ts'

test('text in pieces becomes whole lines, the last without its end', () => {
  const lines: string[] = []
  const splitter = lineSplitter((line) => void lines.push(line))
  for (const piece of ['one\ntw', 'o\n', '\nthree']) splitter.push(piece)
  splitter.end()
  splitter.end()
  assert.deepEqual(lines, ['one', 'two', '', 'three'])
})

test('a line that never ends is cut, so that it does not fill the memory', () => {
  const lengths: number[] = []
  const splitter = lineSplitter((line) => void lengths.push(line.length))
  for (let i = 0; i < 20; i++) splitter.push('x'.repeat(1000))
  splitter.end()
  assert.deepEqual(lengths, [8192, 8192, 3616])
})

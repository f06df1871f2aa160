import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ProgressLine } from './progress-line.ts'

test('without a terminal there is a line every ten seconds of a load, and none of a short one', () => {
  const lines: string[] = []
  const progress = new ProgressLine((text) => lines.push(text), null)
  for (const ms of [1000, 2000, 10_000, 11_500, 12_000, 22_000]) progress.show('Concurrency: 1', 1, ms, 0, ms)
  progress.show('Concurrency: 2', 1, 10, 1, 22_500)
  progress.clear()
  assert.deepEqual(lines, [
    'Concurrency: 1, window 1: 11500 requests, 1000/s\n',
    'Concurrency: 1, window 1: 22000 requests, 1000/s\n',
  ])
})

test('on a terminal one line is rewritten and cleared', () => {
  const lines: string[] = []
  const progress = new ProgressLine(
    (text) => lines.push(text),
    () => 80,
  )
  progress.show('Concurrency: 1', 1, 5, 0, 1)
  progress.clear()
  assert.deepEqual(lines, ['\r\x1b[2KConcurrency: 1, window 1: 5 requests, 0/s', '\r\x1b[2K'])
})

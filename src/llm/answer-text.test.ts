import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AnswerText } from './answer-text.ts'

/** What is given out for the bytes in pieces of this size. */
function given(stops: string[], said: string, size: number): { pieces: string[]; isStopped: boolean } {
  const text = new AnswerText(stops)
  const bytes = new TextEncoder().encode(said)
  const pieces: string[] = []
  for (let at = 0; at < bytes.length; at += size) pieces.push(text.push(bytes.subarray(at, at + size)))
  return { pieces: [...pieces, text.end()], isStopped: text.isStopped }
}

test('a stop text is found across pieces of any size, and nothing of it is given out', () => {
  for (const size of [1, 2, 3, 5, 100]) {
    const { pieces, isStopped } = given(['</end>', '\n\nUser'], 'Hé <b> 😀 </e </en</end> more', size)
    assert.equal(pieces.join(''), 'Hé <b> 😀 </e </en')
    assert.ok(isStopped)
  }
})

test('what could have been a stop text is given out when it is none, and characters are never cut', () => {
  for (const size of [1, 2, 3]) {
    const { pieces, isStopped } = given(['STOP'], 'a 😀 STO', size)
    assert.equal(pieces.join(''), 'a 😀 STO')
    assert.ok(!isStopped && pieces.every((piece) => !piece.includes('\ufffd')))
  }
})

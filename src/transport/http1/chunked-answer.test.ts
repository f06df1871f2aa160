import assert from 'node:assert/strict'
import { test } from 'node:test'

import { ChunkedAnswer } from './chunked-answer.ts'

function answerUnderTest(): { answer: ChunkedAnswer; taken: (() => void)[]; calls: string[] } {
  const taken: (() => void)[] = []
  const calls: string[] = []
  const writer = {
    write: (_piece: Uint8Array, onTaken: () => void) => taken.push(onTaken),
    end: () => calls.push('end'),
    destroy: () => calls.push('destroy'),
  }
  return { answer: new ChunkedAnswer(writer, () => calls.push('over')), taken, calls }
}

for (const [what, bytes, expected] of [
  ['32 small pieces', 10, 32],
  ['half a mebibyte', 64 * 1024, 8],
] as const) {
  test(`a reader is behind with ${what} unread, and has caught up with a quarter of it`, () => {
    const { answer, taken } = answerUnderTest()
    const drains: string[] = []
    answer.onDrain = () => drains.push('drained')
    let count = 1
    while (answer.write(new Uint8Array(bytes))) count++
    assert.equal(count, expected)
    while (drains.length === 0) taken.shift()?.()
    assert.ok(taken.length <= expected / 4 && taken.length > 0, `caught up with ${taken.length} left`)
    assert.equal(answer.write(new Uint8Array(1)), true)
  })
}

test('nothing is written after the end, an abort or a disconnect', () => {
  for (const finish of ['end', 'abort', 'drop'] as const) {
    const { answer, taken, calls } = answerUnderTest()
    answer[finish]()
    answer[finish]()
    assert.equal(answer.write(new Uint8Array(1)), true)
    assert.equal(taken.length, 0)
    assert.deepEqual(calls, { end: ['end', 'over'], abort: ['destroy'], drop: [] }[finish])
  }
})

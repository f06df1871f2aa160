import assert from 'node:assert/strict'
import { test } from 'node:test'
import { promptBudget, responseRatio, wholePrompts } from './prompt-budget.ts'

const times = { answerMs: 60, promptTokenMs: 2 }
const prompts = (count: number, tokens: number, waitedMs = 0) =>
  Array.from({ length: count }, () => ({ tokens, waitedMs }))

test('a long prompt beside answers makes their step at most 1.4 times as long', () => {
  const tokens = promptBudget(8, prompts(1, 4000), times, 2048)
  assert.ok(tokens >= 8 && 60 + tokens * 2 <= 60 * 1.4 + 1, `${tokens} tokens`)
  assert.equal(
    promptBudget(8, prompts(1, 4000, 20_000), times, 2048),
    tokens,
    'a wait that its length explains changes nothing',
  )
})

test('short prompts that come together are computed in one step, before the first of them has answered much', () => {
  assert.ok(promptBudget(1, prompts(15, 40), times, 2048) >= 15 * 40)
  assert.equal(promptBudget(5, [], times, 512), 0)
})

test('a prompt that waits long for its length gets more of a step', () => {
  assert.ok(promptBudget(8, prompts(3, 100, 4000), times, 2048) > 5 * promptBudget(8, prompts(3, 100), times, 2048))
  assert.ok(
    responseRatio({ tokens: 100, waitedMs: 500 }, times) > responseRatio({ tokens: 4000, waitedMs: 500 }, times),
  )
})

test('a step is planned for two seconds at most, never over its size, and never for nothing', () => {
  assert.equal(promptBudget(0, prompts(3, 4000), times, 2048), 1000)
  assert.ok(promptBudget(1, prompts(15, 4000, 60_000), times, 2048) <= 1000)
  assert.equal(promptBudget(0, prompts(3, 4000), { answerMs: 0, promptTokenMs: 0 }, 512), 512)
  assert.equal(promptBudget(8, prompts(1, 4000), { answerMs: 1000, promptTokenMs: 900 }, 2048), 2)
  assert.equal(promptBudget(8, prompts(1, 4000), times, 3), 3)
  assert.equal(promptBudget(8, prompts(1, 4000), { answerMs: 0, promptTokenMs: 0 }, 2048), 64)
})

test('a step computes whole prompts, the last few of many as well, and of a longer one what it can', () => {
  assert.equal(wholePrompts(100, [40, 40, 40, 40, 40], 2048), 80, 'the third would only be begun')
  assert.equal(wholePrompts(100, [40, 50, 30], 2048), 120, 'one that is left over from two')
  assert.equal(wholePrompts(100, [60, 59], 2048), 60, 'one after the other')
  assert.equal(wholePrompts(100, [20, 20, 400], 2048), 40, 'the long one waits')
  assert.equal(wholePrompts(100, [400, 500], 2048), 100)
  assert.equal(wholePrompts(100, [40, 40, 40], 110), 80, 'no step is larger than it may be')
})

test('a wait below half a second makes no prompt urgent', () => {
  assert.ok(responseRatio({ tokens: 1, waitedMs: 100 }, times) < 1.5)
  assert.equal(promptBudget(8, prompts(2, 20, 400), times, 2048), promptBudget(8, prompts(2, 20), times, 2048))
})

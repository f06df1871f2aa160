import assert from 'node:assert/strict'
import { test } from 'node:test'
import { promptBudget } from './prompt-budget.ts'

const times = { answerMs: 60, promptTokenMs: 2 }

test('a long prompt beside answers makes their step at most 1.4 times as long', () => {
  const tokens = promptBudget(8, 1, times, 2048)
  assert.ok(tokens >= 8 && 60 + tokens * 2 <= 60 * 1.4 + 1, `${tokens} tokens`)
})

test('prompts alone fill the step, and more prompts than answers get more of it', () => {
  assert.equal(promptBudget(0, 3, times, 512), 512)
  assert.equal(promptBudget(5, 0, times, 512), 0)
  assert.ok(promptBudget(1, 15, times, 2048) > 10 * promptBudget(8, 1, times, 2048))
})

test('a step is never over its size, and never for nothing', () => {
  assert.equal(promptBudget(8, 1, { answerMs: 1000, promptTokenMs: 900 }, 2048), 8)
  assert.equal(promptBudget(8, 1, times, 3), 3)
  assert.equal(promptBudget(8, 1, { answerMs: 0, promptTokenMs: 0 }, 2048), 64)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { TurnBudget } from './turn-budget.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('what comes at once beyond the budget is done in later turns, in order', async () => {
  const budget = new TurnBudget()
  const done: number[] = []
  for (let i = 0; i < 5; i++) budget.take(200 * 1024, () => done.push(i))
  // 200 KiB are 51 units of 64: the second one is begun before the budget is spent.
  assert.deepEqual(done, [0, 1])
  await nextTurn()
  assert.deepEqual(done, [0, 1, 2, 3])
  await nextTurn()
  assert.deepEqual(done, [0, 1, 2, 3, 4])
  assert.equal(budget.isSpent, false)
})

test('small things that come one by one never wait', async () => {
  const budget = new TurnBudget()
  for (let turn = 0; turn < 200; turn++) {
    budget.spend(100)
    assert.equal(budget.isSpent, false)
    if (turn % 10 === 0) await nextTurn()
  }
  for (let i = 0; i < 100; i++) budget.spend(0)
  assert.equal(budget.isSpent, true)
  const seen: string[] = []
  budget.whenRenewed(() => seen.push('a'))
  budget.whenRenewed(() => seen.push('b'))
  await nextTurn()
  assert.deepEqual(seen, ['a', 'b'])
})

test('who asked for a thousand things keeps nobody waiting for more than its first one', async () => {
  const budget = new TurnBudget()
  const [greedy, other] = [{}, {}]
  const done: string[] = []
  const want = (who: object, name: string): void =>
    budget.whenRenewed(() => {
      budget.spend(100 * 1024)
      done.push(name)
    }, who)
  for (let i = 0; i < 1000; i++) want(greedy, `greedy ${i}`)
  want(other, 'other 0')
  want(other, 'other 1')
  await nextTurn()
  await nextTurn()
  // Three of 26 units fit into a turn of 64.
  assert.deepEqual(done, ['greedy 0', 'other 0', 'greedy 1', 'other 1', 'greedy 2', 'greedy 3'])
})

test('what is asked for again while a turn begins waits for the next turn', async () => {
  const budget = new TurnBudget()
  let asked = 0
  const again = (): void => {
    if (++asked < 5) budget.whenRenewed(again, budget)
  }
  budget.whenRenewed(again, budget)
  await nextTurn()
  assert.equal(asked, 1)
  await nextTurn()
  assert.equal(asked, 2)
})

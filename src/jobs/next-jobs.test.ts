import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nextJobs } from './next-jobs.ts'

/** `a+ a b- b!`: a runs, a waits, nothing is to be done for b, b ends. */
const plan = (text: string, most: number): string => {
  const places = { '': 'waiting', '+': 'running', '-': 'none', '!': 'ending' } as const
  const jobs = text.split(' ').map((word, i) => ({ name: `${word[0]}${i}`, owner: word[0] ?? '', place: places[word.slice(1) as '' | '+'] })) // prettier-ignore
  const { begin, giveWay } = nextJobs(jobs, (job) => job, most)
  return `${begin.map(({ name }) => name).join(' ')} / ${giveWay?.name ?? '-'}`
}

test('who has the fewest jobs under way comes next, and of one owner the oldest job', () => {
  assert.equal(plan('a a a b b c-', 3), 'a0 b3 a1 / -')
  assert.equal(plan('a+ a+ a a b c', 4), 'b4 c5 / -')
  assert.equal(plan('a+ a a', 9), 'a1 a2 / -')
})

test('an owner with two more than somebody who waits gives its youngest place up, one at a time', () => {
  assert.equal(plan('a+ a+ a+ b', 3), ' / a2')
  assert.equal(plan('a+ a+ a! b', 3), ' / -')
  assert.equal(plan('a+ a+ a b', 3), 'b3 / -')
  assert.equal(plan('a+ a+ a b+ b', 3), ' / -')
  assert.equal(plan('a+ a+ a+ b+ b', 4), ' / a2')
  assert.equal(plan('a+ a+ b+ b+ b a', 4), ' / -')
  assert.equal(plan('a+ a+ a+ a a', 3), ' / -')
})

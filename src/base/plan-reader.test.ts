import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PlanProblems } from './plan-reader.ts'

test('of keys that are not known as many are looked at as problems are told', () => {
  const problems = new PlanProblems(() => null)
  let looked = 0
  const names = new Set(Array.from({ length: 90_000 }, (_, i) => `k${i}`))
  const known = ['model'] as const
  Object.defineProperty(known, 'includes', {
    value: (name: string) => {
      looked++
      return !names.has(name)
    },
  })
  const fields = problems
    .root(Object.fromEntries([['model', 'm'], ...[...names].map((name) => [name, 1])]))
    .fields(known)
  assert.equal(fields?.model.text(), 'm')
  assert.equal(problems.list().length, 50)
  assert.ok(looked < 100, `${looked} keys were looked at`)
})

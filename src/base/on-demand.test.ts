import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OnDemand } from './on-demand.ts'

test('all share what was opened first, and nothing is opened before somebody needs it', async () => {
  let count = 0
  const book = new OnDemand(() => Promise.resolve({ number: ++count }))
  assert.equal(await book.opened(), null)
  assert.equal(count, 0)
  const [one, other] = await Promise.all([book.get(), book.get()])
  assert.equal(one, other)
  assert.equal(await book.opened(), one)
})

test('after a failure the next one who needs it tries again', async () => {
  let count = 0
  const book = new OnDemand(() => (++count === 1 ? Promise.reject(new Error('no descriptor is free')) : Promise.resolve(count))) // prettier-ignore
  const first = book.get()
  assert.equal(await book.opened(), null)
  await assert.rejects(first, /no descriptor/)
  assert.equal(await book.opened(), null)
  assert.equal(await book.get(), 2)
})

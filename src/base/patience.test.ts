import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Patience } from './patience.ts'

test('work is waited for, and what it waited with is forgotten', async () => {
  const patience = new Patience()
  const work = Promise.withResolvers<void>()
  const waited = patience.waitFor(work.promise)
  assert.equal(patience.waitingCount, 1)
  work.resolve()
  await waited
  assert.equal(patience.waitingCount, 0)
})

test('the end of the patience ends every wait, and those that come later', async () => {
  const patience = new Patience()
  const never = new Promise<void>(() => undefined)
  const waits = [patience.waitFor(never), patience.waitFor(never)]
  patience.end()
  await Promise.all(waits)
  await patience.waitFor(never)
  await Patience.none().waitFor(never)
  assert.equal(patience.waitingCount, 0)
})

test('work that fails fails the wait, and is forgotten, too', async () => {
  const patience = new Patience()
  await assert.rejects(patience.waitFor(Promise.reject(new Error('no'))), /no/)
  assert.equal(patience.waitingCount, 0)
})

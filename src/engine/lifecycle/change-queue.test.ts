import assert from 'node:assert/strict'
import test from 'node:test'
import { ChangeQueue } from './change-queue.ts'

test('changes of one model follow each other, at most 32 of them wait, and other models do not wait for them', async () => {
  const changes = new ChangeQueue()
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const order: number[] = []
  const first = changes.run('m', () => gate)
  const waiting = Array.from({ length: 32 }, (_, i) => changes.run('m', () => Promise.resolve(order.push(i))))
  await assert.rejects(
    changes.run('m', () => Promise.resolve()),
    { code: 'UNAVAILABLE', message: "32 loads and unloads of model 'm' wait already, the maximum: try again later" },
  )
  assert.equal(await changes.run('other', () => Promise.resolve('done')), 'done')
  open()
  await Promise.all([first, ...waiting])
  assert.deepEqual(order, [...order.keys()])
  assert.equal(await changes.run('m', () => Promise.resolve('again')), 'again')
  await changes.settled()
})

test('a change that fails leaves its place', async () => {
  const changes = new ChangeQueue()
  for (let i = 0; i < 100; i++) await assert.rejects(changes.run('m', () => Promise.reject(new Error('no'))))
  assert.equal(changes.has('m'), false)
})

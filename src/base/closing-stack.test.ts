import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClosingStack, openOrClose } from './closing-stack.ts'

test('closes what was added last first, each after the one before it, and only once', async () => {
  const closing = new ClosingStack()
  const seen: string[] = []
  const slow = async (name: string): Promise<void> => {
    seen.push(`${name} begins`)
    await new Promise(setImmediate)
    seen.push(`${name} ends`)
  }
  assert.equal(closing.add('a', slow), 'a')
  closing.add('b', slow)
  await closing.close()
  await closing.close()
  assert.deepEqual(seen, ['b begins', 'b ends', 'a begins', 'a ends'])
})

test('what is opened later can be closed in a place that was kept for it', async () => {
  const closing = new ClosingStack()
  const seen: string[] = []
  closing.add('first', (name) => seen.push(name))
  const place = closing.place()
  closing.add('second', (name) => seen.push(name))
  place.add('late', (name) => seen.push(name))
  await closing.close()
  assert.deepEqual(seen, ['second', 'late', 'first'])
})

test('a failure keeps nothing else open and is thrown at the end', async () => {
  const closing = new ClosingStack()
  const seen: string[] = []
  closing.add('a', (name) => seen.push(name))
  closing.add('b', () => Promise.reject(new Error('later')))
  closing.add('c', () => {
    throw new Error('sooner')
  })
  await assert.rejects(closing.close(), /sooner/)
  assert.deepEqual(seen, ['a'])
})

test('what fails to open says why, after all that was opened before is closed', async () => {
  const seen: string[] = []
  const opening = openOrClose(async (closing) => {
    closing.add('a', (name) => seen.push(name))
    closing.add('b', () => Promise.reject(new Error('another reason')))
    await Promise.reject(new Error('the reason'))
  })
  await assert.rejects(opening, /the reason/)
  assert.deepEqual(seen, ['a'])
})

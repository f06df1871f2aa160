import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Turnstile } from './turnstile.ts'

/** Actions that say when they begin, and end when they are told to. */
function actions(): {
  readonly begun: string[]
  readonly action: (name: string) => () => Promise<void>
  readonly end: (name: string) => Promise<void>
} {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  return {
    begun,
    action: (name) => () => {
      begun.push(name)
      return new Promise((resolve) => ends.set(name, resolve))
    },
    end: async (name) => {
      ends.get(name)?.()
      await new Promise(setImmediate)
    },
  }
}

test('an action passes when the places that it takes are free, and nobody passes one that waits', async () => {
  const { begun, action, end } = actions()
  const turnstile = new Turnstile(4)
  void turnstile.pass(action('three'), 3)
  void turnstile.pass(action('two'), 2)
  void turnstile.pass(action('one'))
  assert.deepEqual(begun, ['three'])
  await end('three')
  assert.deepEqual(begun, ['three', 'two', 'one'])
})

test('an action that takes more places than there are passes alone', async () => {
  const { begun, action, end } = actions()
  const turnstile = new Turnstile(4)
  void turnstile.pass(action('one'))
  void turnstile.pass(action('nine'), 9)
  void turnstile.pass(action('another'))
  assert.deepEqual(begun, ['one'])
  await end('one')
  assert.deepEqual(begun, ['one', 'nine'])
  await end('nine')
  assert.deepEqual(begun, ['one', 'nine', 'another'])
})

test('an action that fails gives its places back, and a full line refuses', async () => {
  const turnstile = new Turnstile(1, { most: 1, refusal: () => new Error('the line is full') })
  const { begun, action } = actions()
  const failed = turnstile.pass(() => Promise.reject(new Error('failed')))
  void turnstile.pass(action('next'))
  await assert.rejects(turnstile.pass(action('third')), /the line is full/)
  await assert.rejects(failed, /failed/)
  assert.deepEqual(begun, ['next'])
})

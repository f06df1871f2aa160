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
  void turnstile.pass(action('three'), { places: 3 })
  void turnstile.pass(action('two'), { places: 2 })
  void turnstile.pass(action('one'))
  assert.deepEqual(begun, ['three'])
  await end('three')
  assert.deepEqual(begun, ['three', 'two', 'one'])
})

test('an action that takes more places than there are passes alone', async () => {
  const { begun, action, end } = actions()
  const turnstile = new Turnstile(4)
  void turnstile.pass(action('one'))
  void turnstile.pass(action('nine'), { places: 9 })
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

test('an action that nobody waits for leaves the line, and lets those behind it pass', async () => {
  const { begun, action, end } = actions()
  const turnstile = new Turnstile(4, { most: 2, refusal: () => new Error('the line is full') })
  const gone = new AbortController()
  void turnstile.pass(action('one'))
  const left = turnstile.pass(action('four'), { places: 4, signal: gone.signal })
  void turnstile.pass(action('two'), { places: 2, signal: new AbortController().signal })
  await assert.rejects(turnstile.pass(action('third')), /the line is full/)
  gone.abort(new Error('gone'))
  await assert.rejects(left, /gone/)
  await assert.rejects(turnstile.pass(action('late'), { signal: gone.signal }), /gone/)
  assert.deepEqual(begun, ['one', 'two'])
  await end('one')
  await end('two')
  void turnstile.pass(action('all'), { places: 4 })
  assert.deepEqual(begun, ['one', 'two', 'all'])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReadingTurns, type ArrivingBody } from './reading-turns.ts'

const mebibyte = 1024 * 1024

class Body implements ArrivingBody {
  isHeld = false

  hold(): void {
    this.isHeld = true
  }

  letGo(): void {
    this.isHeld = false
  }
}

/** Turns of which each look is made by hand. */
function start(): {
  readonly turns: ReadingTurns
  readonly bodies: readonly [Body, Body, Body]
  /** False: nobody wants a look. */
  readonly look: () => boolean
  readonly held: () => string
} {
  let wanted: (() => void) | null = null
  const turns = new ReadingTurns((look) => (wanted = look))
  const bodies = [new Body(), new Body(), new Body()] as const
  const look = (): boolean => {
    const now = wanted
    wanted = null
    now?.()
    return now !== null
  }
  return { turns, bodies, look, held: () => bodies.map(({ isHeld }) => (isHeld ? 'held' : 'read')).join(' ') }
}

test('of bodies that arrive together the first is read, and the next one when it is whole', () => {
  const { turns, bodies, look, held } = start()
  const [first, second, third] = bodies
  turns.onRead(first, mebibyte)
  assert.equal(look(), false, 'a single body costs nothing')
  for (const body of bodies) turns.onRead(body, mebibyte)
  look()
  assert.equal(held(), 'read held held')
  turns.onRead(first, mebibyte)
  look()
  assert.equal(held(), 'read held held')
  turns.onEnd(first)
  look()
  assert.equal(held(), 'read read read')
  turns.onRead(third, mebibyte)
  turns.onRead(second, mebibyte)
  look()
  assert.equal(held(), 'read read held', 'the second began before the third')
  turns.onEnd(second)
  look()
  assert.equal(held(), 'read read read')
  turns.onRead(third, mebibyte)
  assert.equal(look(), false)
})

test('a body whose client sends nothing holds nobody, and comes first when it goes on', () => {
  const { turns, bodies, look, held } = start()
  const [first, second, third] = bodies
  for (const body of bodies) turns.onRead(body, mebibyte)
  look()
  assert.equal(look(), true)
  assert.equal(held(), 'read read read')
  assert.equal(look(), false, 'nobody is held, so nobody is looked at')
  turns.onRead(second, mebibyte)
  look()
  assert.equal(held(), 'read read held')
  turns.onRead(first, mebibyte)
  turns.onRead(second, mebibyte)
  look()
  assert.equal(held(), 'read held held')
  turns.onEnd(first)
  turns.onEnd(second)
  look()
  assert.equal(third.isHeld, false)
})

test('a very large body lets the others go before it now and then', () => {
  const { turns, bodies, look, held } = start()
  const [large, other] = bodies
  turns.onRead(large, 20 * mebibyte)
  turns.onRead(other, mebibyte)
  look()
  assert.equal(held(), 'read held read')
  turns.onRead(large, 20 * mebibyte)
  look()
  look()
  turns.onRead(other, mebibyte)
  turns.onRead(large, mebibyte)
  look()
  assert.equal(held(), 'held read read')
})

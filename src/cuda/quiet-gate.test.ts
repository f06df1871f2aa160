import assert from 'node:assert/strict'
import { test } from 'node:test'
import { QuietGate } from './quiet-gate.ts'

test('a job that must be alone waits for those before it, and those behind it wait for the job', async () => {
  const gate = new QuietGate()
  const begun: string[] = []
  const enter = (name: string, isAlone = false): void => gate.enter(isAlone, () => begun.push(name))
  enter('a')
  enter('b')
  enter('alone', true)
  enter('c')
  assert.deepEqual(begun, ['a', 'b'])
  gate.leave()
  assert.deepEqual(begun, ['a', 'b'])
  gate.leave()
  assert.deepEqual(begun, ['a', 'b', 'alone'])
  enter('second', true)
  gate.leave()
  assert.deepEqual(begun.slice(3), ['c'])
  gate.leave()
  assert.deepEqual(begun.slice(4), ['second'])
  gate.leave()
  await assert.rejects(gate.among(() => Promise.reject(new Error('no'))))
  enter('after', true)
  assert.equal(begun.at(-1), 'after')
})

test('while a session is made nobody waits behind a job that wants to be alone', async () => {
  const gate = new QuietGate()
  const begun: string[] = []
  const enter = (name: string, isAlone = false): void => gate.enter(isAlone, () => begun.push(name))
  let made = (): void => undefined
  const session = gate.among(() => new Promise<void>((resolve) => (made = resolve)))
  enter('alone', true)
  enter('early')
  await Promise.resolve()
  assert.equal(gate.isOccupied, true)
  enter('late')
  assert.deepEqual(begun, ['early', 'late'])
  gate.leave()
  made()
  await session
  assert.equal(gate.isOccupied, false)
  enter('behind')
  assert.deepEqual(begun, ['early', 'late'], 'now the others wait again')
  gate.leave()
  assert.deepEqual(begun, ['early', 'late', 'alone'])
  gate.leave()
  assert.deepEqual(begun, ['early', 'late', 'alone', 'behind'])
})

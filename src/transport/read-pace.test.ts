import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReadPace } from './read-pace.ts'

const kibibytes = 1024
const mebibyte = 1024 * kibibytes

test('sockets are read up to a bound in one turn, and those that reached it go on in the next one', () => {
  const renewals: (() => void)[] = []
  const pace = new ReadPace((renew) => renewals.push(renew))
  const wentOn: string[] = []
  const socket = (name: string): { goOn: () => void } => ({ goOn: () => wentOn.push(name) })
  const [first, second] = [socket('first'), socket('second')]
  for (let read = 0; read < 16; read++) assert.equal(pace.mayGoOn(first, 64 * kibibytes), true)
  assert.equal(pace.mayGoOn(first, 64 * kibibytes), false)
  assert.equal(pace.mayGoOn(second, 100), false)
  assert.equal(renewals.length, 1)
  assert.deepEqual(wentOn, [])
  renewals.shift()?.()
  assert.deepEqual(wentOn, ['first', 'second'])
  assert.equal(pace.mayGoOn(first, mebibyte), true)
})

test('small reads that come one by one ask for no turn', () => {
  let asked = 0
  const pace = new ReadPace(() => asked++)
  for (let read = 0; read < 2000; read++) assert.equal(pace.mayGoOn({ goOn: () => assert.fail() }, 100), true)
  assert.equal(asked, 0)
})

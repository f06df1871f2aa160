import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCorsOrigins } from './cors-origins.ts'
import { parseFlags } from './flags.ts'
import { optionsFromFlags } from './options-from-flags.ts'

test('origins come as a list, or one by one', () => {
  assert.deepEqual(parseCorsOrigins('f', '*'), ['*'])
  assert.deepEqual(parseCorsOrigins('f', 'https://a.example, http://localhost:3000'), [
    'https://a.example',
    'http://localhost:3000',
  ])
})

test('what no browser would send as an origin is refused', () => {
  for (const text of [
    '',
    'a.example',
    'https://a.example/',
    'https://a.example/x',
    'HTTPS://a.example',
    'null',
    'https://a.example:443',
  ]) {
    assert.throws(() => parseCorsOrigins('http-cors-origin', text), /Bad option: "--http-cors-origin"/, text)
  }
})

test('the flag may be given several times, and is off unless it is', () => {
  const surroundings = { environment: {}, version: '1.2.3', examplesPath: '/examples' }
  const originsOf = (...flags: string[]): unknown =>
    optionsFromFlags(parseFlags(['--model-repository=/m', ...flags], {}), surroundings).http?.corsOrigins
  assert.deepEqual(originsOf(), [])
  assert.deepEqual(originsOf('--http-cors-origin=https://a.example,https://b.example', '--http-cors-origin=*'), [
    'https://a.example',
    'https://b.example',
    '*',
  ])
})

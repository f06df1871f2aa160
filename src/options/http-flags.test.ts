import assert from 'node:assert/strict'
import { test } from 'node:test'
import { optionsOf } from '../../test/fixtures/options-of.ts'

const originsOf = (...flags: string[]): unknown => optionsOf(['--model-repository=/m', ...flags]).http?.corsOrigins

test('origins come as a list, or one by one', () => {
  assert.deepEqual(originsOf('--http-cors-origin=*'), ['*'])
  assert.deepEqual(originsOf('--http-cors-origin=https://a.example, http://localhost:3000'), [
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
    assert.throws(() => originsOf(`--http-cors-origin=${text}`), /Bad option: "--http-cors-origin"/, text)
  }
})

test('the flag may be given several times, and is off unless it is', () => {
  assert.deepEqual(originsOf(), [])
  assert.deepEqual(originsOf('--http-cors-origin=https://a.example,https://b.example', '--http-cors-origin=*'), [
    'https://a.example',
    'https://b.example',
    '*',
  ])
})

test('a forward pattern that is given and empty matches every name with --triton-defaults, as in Triton', () => {
  const patternOf = (...flags: string[]): unknown =>
    optionsOf(['--model-repository=/m', ...flags]).http?.headerForwardPattern
  assert.equal(patternOf('--triton-defaults'), '')
  assert.equal(patternOf('--triton-defaults', '--http-header-forward-pattern='), '(?:)')
  assert.equal(patternOf('--http-header-forward-pattern='), '')
  assert.equal(patternOf('--triton-defaults', '--http-header-forward-pattern=^x'), '^x')
})

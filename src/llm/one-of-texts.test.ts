import assert from 'node:assert/strict'
import { test } from 'node:test'
import { oneOfTexts } from './one-of-texts.ts'
import { requireGrammar } from './require-grammar.ts'

test('texts share their beginnings', () => {
  assert.equal(oneOfTexts(['a']), '("a")')
  assert.equal(oneOfTexts(['"ab"', '"ac"', '"d"', '"ab"']), '("\\"" ("a" ("b\\"" | "c\\"") | "d\\""))')
  assert.equal(oneOfTexts(['1', '12', '2']), '("1" ("2")? | "2")')
  assert.equal(oneOfTexts(['😀a', '😀b']), '("😀" ("a" | "b"))')
})

test('2,000 texts can go on in few ways at each character, and never nest too deep', () => {
  const numbered = oneOfTexts(Array.from({ length: 2000 }, (_, i) => `"item number ${i}"`))
  const widest = Math.max(...[...numbered.matchAll(/\(([^()]*)\)/g)].map(([, group = '']) => group.split('|').length))
  assert.ok(numbered.startsWith('("\\"item number " ("0\\"" | "1" ('), numbered.slice(0, 60))
  assert.ok(widest <= 11, `${widest} ways`)
  for (const texts of [
    Array.from({ length: 2000 }, (_, i) => `${i * i}`),
    Array.from({ length: 200 }, (_, i) => 'a'.repeat(i + 1)),
  ]) {
    requireGrammar(`root ::= ${oneOfTexts(texts)}`)
  }
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'

import { LinearPattern } from './linear-pattern.ts'

const matches = (pattern: string, text: string): boolean => new LinearPattern(pattern).matches(text)

test('letters match in either case until the pattern says otherwise', () => {
  assert.ok(matches('x-id', 'X-ID'))
  assert.ok(!matches('(?-i)x-id', 'X-ID'))
  assert.ok(matches('(?-i)x-id', 'x-id'))
  assert.ok(matches('(?-i:x)-id', 'x-ID'))
  assert.ok(!matches('(?-i:x)-id', 'X-ID'))
  assert.ok(matches('(?-i)a(?i:b)c', 'aBc'))
  assert.ok(!matches('(?-i)a(?i:b)c', 'aBC'))
  assert.ok(!matches('a(?-i)b|c', 'C'), 'flags hold until the end of their group')
  assert.ok(matches('(a(?-i)b)c', 'AbC'))
  assert.ok(!matches('[^a]', 'A'))
})

test('RE2 spells some things in its own way', () => {
  for (const [pattern, text, expected] of [
    ['\\Ax-[[:alpha:]]+\\z', 'x-abc', true],
    ['\\Ax-[[:digit:]]+\\z', 'x-abc', false],
    ['^[[:^digit:]]+$', 'abc', true],
    ['(?P<name>fwd)_(?<other>a)', 'fwd_a', true],
    ['^\\Qa.b*\\E+$', 'a.b***', true],
    ['^\\Qa.b', 'axb', false],
    ['^\\x41\\x{42}\\103\\_$', 'abc_', true],
    ['^\\pL+\\p{Greek}\\PL$', 'aβ1', true],
    ['^\\p{^L}$', 'a', false],
    ['^a$', 'b\na', false],
    ['(?m)^a$', 'b\na', true],
    ['^.$', '\n', false],
    ['(?s)^.$', '\n', true],
    ['^\\C$', '\n', true],
    ['(?U)^a+?$', 'aaa', true],
    ['^x{,2}$', 'x{,2}', true],
    ['^[]a]+$', ']a', true],
    ['^[a-]+$', 'a-', true],
    ['^[^]a]$', 'b', true],
    ['\\bid\\b', 'x-id-y', true],
    ['\\bid\\B', 'x-id-y', false],
    ['^a{3}$', 'aaaa', false],
    ['^a{2,}$', 'aaaa', true],
    ['^(a{2,3}){2}$', 'aaaaa', true],
    ['^a{1000}$', 'a'.repeat(1000), true],
    ['', '', true],
    ['a||b', 'z', true],
    ['()', '', true],
    ['^(a*)*$', 'aaab', false],
    ['^😀$', '😀', true],
    ['^.$', '😀', true],
  ] as const) {
    assert.equal(matches(pattern, text), expected, `${pattern} on ${JSON.stringify(text)}`)
  }
})

test('what RE2 refuses is refused in its words', () => {
  for (const [pattern, expected] of [
    ['(', 'missing )'],
    [')', 'unexpected )'],
    ['a)b', 'unexpected )'],
    ['[a', 'missing ]'],
    ['[z-a]', 'invalid character class range'],
    ['[a-\\d]', 'invalid escape sequence: \\d'],
    ['[[:word2:]]', 'invalid character class range: [:word2:]'],
    ['\\p{Nope}', 'invalid character class range: \\p{Nope}'],
    ['*', 'no argument for repetition operator: *'],
    ['a|*', 'no argument for repetition operator: *'],
    ['a**', 'bad repetition operator: **'],
    ['a{2}{3}', 'bad repetition operator: {2}{3}'],
    ['a{1001}', 'invalid repetition size: {1001}'],
    ['a{2,1}', 'invalid repetition size: {2,1}'],
    ['(a{100}){100}', 'invalid repetition size: {100}'],
    ['(?=a)', 'invalid perl operator: (?='],
    ['(?!a)', 'invalid perl operator: (?!'],
    ['(?<=a)', 'invalid perl operator: (?<'],
    ['(?z)', 'invalid perl operator: (?z'],
    ['(?P<a>.)(?P<a>.)', 'duplicate capture group name: a'],
    ['(?P<a b>.)', 'invalid named capture group'],
    ['(a)\\1', 'invalid escape sequence: \\1'],
    ['\\8', 'invalid escape sequence: \\8'],
    ['\\q', 'invalid escape sequence: \\q'],
    ['\\Z', 'invalid escape sequence: \\Z'],
    ['\\', 'trailing \\ at end of regular expression'],
    ['a{1000}b{1000}c{1000}d{1000}e{1000}', 'pattern too large, it needs more than 4096 steps'],
    ['('.repeat(1001), 'expression nests too deeply'],
  ] as const) {
    assert.throws(() => new LinearPattern(pattern), { message: expected }, pattern.slice(0, 40))
  }
})

const letter = fc.constantFrom('a', 'B', '-', '_', '0', 'é')
const set = fc.constantFrom('[ab]', '[^a]', '[a-z0]', '[A-C]', '[^a-c_]', '\\d', '\\W', '\\w', '.', '[\\d-]', '[^\\w]')
const anchor = fc.constantFrom('^', '$', '\\b', '\\B')
const { node: pattern } = fc.letrec<{ node: string }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.oneof(letter, set, anchor),
    fc.tuple(tie('node'), tie('node')).map(([a, b]) => a + b),
    fc.tuple(tie('node'), tie('node')).map(([a, b]) => `(${a}|${b})`),
    fc
      .tuple(
        fc.oneof(
          letter,
          set,
          tie('node').map((a) => `(?:${a})`),
        ),
        fc.constantFrom('*', '+', '?', '{2}', '{1,3}', '{0,2}', '{1,}', '*?', '+?'),
      )
      .map(([a, operator]) => a + operator),
  ),
}))
const name = fc.string({ maxLength: 12, unit: fc.constantFrom('a', 'b', 'c', 'A', 'B', '-', '_', '0', 'é', 'É', '\n') })

// V8 merges alternatives that have different flags, as in (?-i:(?i:a)|b): flags are of the whole pattern here.
const flags = fc.subarray(['i', 'm', 's'])

test('JavaScript agrees on patterns and names that both understand', () => {
  fc.assert(
    fc.property(pattern, flags, fc.array(name, { maxLength: 8 }), (source, given, texts) => {
      const ours = new LinearPattern(`(?${given.join('')}${given.includes('i') ? '' : '-i'})${source}`)
      const theirs = new RegExp(source, given.join(''))
      for (const text of texts)
        assert.equal(ours.matches(text), theirs.test(text), JSON.stringify([source, given, text]))
    }),
    { numRuns: 20_000 },
  )
})

test('every character of a name is looked at once, whatever the pattern is', (t) => {
  const name = `x-${'a'.repeat(8000)}!`
  const looks = t.mock.method(String.prototype, 'codePointAt')
  // A backtracking engine takes ten seconds for 34 characters.
  for (const source of ['^x-([a-z0-9]+-?)*id$', '(a*)*b', '(a|aa)+$', '(.*)(.*)(.*)(.*)(.*)z', 'a.{1000}b']) {
    const pattern = new LinearPattern(source)
    looks.mock.resetCalls()
    assert.equal(pattern.matches(name), false)
    assert.equal(looks.mock.calls.filter((call) => (call.this as unknown) === name).length, name.length, source)
  }
})

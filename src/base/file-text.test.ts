import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseFileText, FileTextError } from './file-text.ts'

function refusal(text: string): string {
  try {
    parseFileText(text, 'yaml')
  } catch (reason) {
    assert.ok(reason instanceof FileTextError, String(reason))
    return `${reason.position?.line ?? '-'}:${reason.position?.column ?? '-'} ${reason.message}`
  }
  return assert.fail(`was read: ${text.slice(0, 60)}`)
}

test('what YAML has beyond plain values is refused by name and place', () => {
  assert.equal(refusal('a: &x 1\nb: *x\n'), '1:4 anchors (&name) are not read')
  assert.equal(refusal('a: 1\nb: *x\n'), '2:4 aliases (*name) are not read')
  assert.equal(refusal('a: !!js/function "x"\n'), '1:4 tags (!name) are not read')
  assert.equal(refusal('? a\n: b\n'), "1:1 explicit keys ('? ') are not read")
  assert.equal(refusal('%YAML 1.1\n---\na: 1\n'), '1:1 directives (%NAME) are not read')
  assert.equal(refusal('a: 1\na: 2\n'), "2:1 the key 'a' is there twice")
  assert.match(refusal('a: [1\n'), /^\d+:\d+ it is not YAML: /)
  assert.equal(refusal('a: \0'), '-:- it is not text: it has NUL characters')
})

test('a text that quotes such words is plain text', () => {
  const { value } = parseFileText('a: "&x *y !z"\nb: |\n  ? &x\n  *y\nc: what? & why\n', 'yaml')
  assert.deepEqual(value, { a: '&x *y !z', b: '? &x\n*y\n', c: 'what? & why' })
})

test('dates, yes and no, and octal numbers are what YAML 1.2 makes of them', () => {
  const { value } = parseFileText('a: 2024-01-01\nb: yes\nc: 0o17\nd: true\ne: ~\n', 'yaml')
  assert.deepEqual(value, { a: '2024-01-01', b: 'yes', c: 15, d: true, e: null })
})

/** Each of them takes a parser of the whole language from half a second to minutes. */
const hostile: readonly (readonly [string, RegExp])[] = [
  ['? '.repeat(32_768), /explicit keys/],
  ['['.repeat(65_536), /nested too deeply/],
  ['- '.repeat(32_768), /nested too deeply/],
  ['{a: '.repeat(16_384), /nested too deeply/],
  [Array.from({ length: 360 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n'), /indented too far/],
  [Array.from({ length: 9000 }, (_, index) => `k${index}: 1`).join('\n'), /too many keys/],
  ['a: &a 1\n' + 'b: [*a, *a, *a]\n'.repeat(4000), /anchors/],
  [']'.repeat(65_000), /too many keys|not YAML/],
  ['"'.repeat(65_536), /too many keys|not YAML/],
]

for (const [text, reason] of hostile) {
  test(`a text that begins with ${JSON.stringify(text.slice(0, 12))} and goes on like that is refused before it is parsed`, () => {
    assert.match(refusal(text), reason)
  })
}

test('whatever the bytes are, the answer is a value or a refusal', () => {
  const words = fc.constantFrom(
    'a',
    ':',
    ' ',
    '\n',
    '- ',
    '? ',
    '[',
    ']',
    '{',
    '}',
    '&a',
    '*a',
    '!',
    '|',
    '>',
    '"',
    "'",
    '#',
    '%',
    '---',
    '...',
    ',',
    '\t',
    '\\',
    '\u2028',
    '0x',
    '~',
  )
  fc.assert(
    fc.property(fc.array(words, { maxLength: 200 }), (parts) => {
      try {
        parseFileText(parts.join(''), 'yaml')
      } catch (reason) {
        assert.ok(reason instanceof FileTextError, String(reason))
      }
    }),
    { numRuns: 2000 },
  )
})

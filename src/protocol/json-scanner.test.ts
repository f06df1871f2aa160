import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ServerError } from '../base/server-error.ts'
import { JsonScanner } from './json-scanner.ts'

/** The problem and its offset, or 'valid'. */
function check(text: string | Uint8Array): string {
  const scanner = new JsonScanner(typeof text === 'string' ? Buffer.from(text) : text)
  try {
    scanner.startDocument()
    scanner.skipValue()
    scanner.endDocument()
    return 'valid'
  } catch (reason) {
    assert(reason instanceof ServerError)
    assert.equal(reason.code, 'INTERNAL')
    return reason.message.replace('failed to parse the request JSON buffer: ', '')
  }
}

// Each line was answered by Triton 2.51.0.
const recorded: [text: string, answer: string][] = [
  [' ', 'The document is empty. at 1'],
  ['\0', 'The document is empty. at 0'],
  ['\ufeff', 'The document is empty. at 3'],
  ['\ufeff{', 'Missing a name for object member. at 4'],
  ['\ufeff[1]', 'valid'],
  ['{', 'Missing a name for object member. at 1'],
  ['{"a"', 'Missing a colon after a name of object member. at 4'],
  ['{"a":', 'Invalid value. at 5'],
  ['{"a":1', "Missing a comma or '}' after an object member. at 6"],
  ['{"a":1,', 'Missing a name for object member. at 7'],
  ['{"a":}', 'Invalid value. at 5'],
  ['{"a" 1}', 'Missing a colon after a name of object member. at 5'],
  ['{"a":1 "b":2}', "Missing a comma or '}' after an object member. at 7"],
  ['{1:2}', 'Missing a name for object member. at 1'],
  ['{]', 'Missing a name for object member. at 1'],
  ['[', 'Invalid value. at 1'],
  ['[1', "Missing a comma or ']' after an array element. at 2"],
  ['[1 2]', "Missing a comma or ']' after an array element. at 3"],
  ['[1,', 'Invalid value. at 3'],
  ['[1,]', 'Invalid value. at 3'],
  ['[,]', 'Invalid value. at 1'],
  ['[}', 'Invalid value. at 1'],
  ['[{', 'Missing a name for object member. at 2'],
  ['[[[[', 'Invalid value. at 4'],
  ['nul', 'Invalid value. at 3'],
  ['nulx', 'Invalid value. at 3'],
  ['fals', 'Invalid value. at 4'],
  ['nan', 'Invalid value. at 1'],
  ['"abc', 'Missing a closing quotation mark in string. at 4'],
  ['"a\0b"', 'Missing a closing quotation mark in string. at 2'],
  ['"a\nb"', 'Invalid escape character in string. at 2'],
  ['"\\x"', 'Invalid escape character in string. at 1'],
  ['"\\', 'Invalid escape character in string. at 1'],
  ['"\\u12g4"', 'Incorrect hex digit after \\u escape in string. at 1'],
  ['"\\ud800\\u0041"', 'The surrogate pair in string is invalid. at 1'],
  ['"\\ud800\\n"', 'The surrogate pair in string is invalid. at 1'],
  ['"\\ud83d\\"', 'The surrogate pair in string is invalid. at 1'],
  ['"\\ud83d\\u"', 'Incorrect hex digit after \\u escape in string. at 1'],
  ['"\\udc00"', 'valid'],
  ['-', 'Invalid value. at 1'],
  ['-x', 'Invalid value. at 1'],
  ['+1', 'Invalid value. at 0'],
  ['.5', 'Invalid value. at 0'],
  ['1.', 'Miss fraction part in number. at 2'],
  ['2.e3', 'Miss fraction part in number. at 2'],
  ['1e', 'Miss exponent in number. at 2'],
  ['1e+x', 'Miss exponent in number. at 3'],
  ['1e309', 'Number too big to be stored in double. at 0'],
  ['-1e309', 'Number too big to be stored in double. at 0'],
  ['0e309', 'Number too big to be stored in double. at 0'],
  ['1.5e309', 'valid'],
  ['0.0e309', 'valid'],
  [`1${'0'.repeat(308)}`, 'valid'],
  [`1${'0'.repeat(309)}`, 'Number too big to be stored in double. at 0'],
  ['1e-99999999999', 'valid'],
  ['NaN', 'valid'],
  ['-NaN', 'valid'],
  ['-Infinity', 'valid'],
  ['Inf', 'valid'],
  ['Infin', 'Invalid value. at 5'],
  ['Na', 'Invalid value. at 2'],
  ['Infx', 'The document root must not be followed by other values. at 3'],
  ['01', 'The document root must not be followed by other values. at 1'],
  ['{}{}', 'The document root must not be followed by other values. at 2'],
  ['[] []', 'The document root must not be followed by other values. at 3'],
  ['{"a":1}\0garbage', 'valid'],
]

for (const [text, answer] of recorded) {
  test(`the document ${JSON.stringify(text.slice(0, 24))} is: ${answer}`, () => assert.equal(check(text), answer))
}

test('every document that JSON.parse takes is valid', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.integer({ min: 0, max: 3 }), (value, indent) => {
      assert.equal(check(JSON.stringify(value, null, indent)), 'valid')
    }),
    { numRuns: 500 },
  )
})

test('of damaged documents those are valid that JSON.parse takes, apart from NaN, Inf, NUL and overflowing exponents', () => {
  const damage = fc.tuple(
    fc.nat(),
    fc.constantFrom('', '"', ',', ':', '[', ']', '{', '}', '\\', '1', '-', '.', 'e', ' '),
  )
  fc.assert(
    fc.property(fc.jsonValue(), damage, (value, [at, text]) => {
      const whole = JSON.stringify(value)
      const position = at % whole.length
      const damaged = whole.slice(0, position) + text + whole.slice(position + 1)
      fc.pre(Buffer.from(damaged).toString() === damaged)
      let isJson = true
      try {
        JSON.parse(damaged)
      } catch {
        isJson = false
      }
      const answer = check(damaged)
      // A high surrogate without its other half is JSON, but not RapidJSON's.
      if (answer.startsWith('Number too big') || answer.startsWith('The surrogate')) return
      assert.equal(answer === 'valid', isJson, `${damaged}: ${answer}`)
    }),
    { numRuns: 3000 },
  )
})

test('depth costs no stack: a million brackets are valid', () => {
  const depth = 1_000_000
  const text = Buffer.concat([Buffer.alloc(depth, '['), Buffer.alloc(depth, ']')])
  assert.equal(check(text), 'valid')
  assert.equal(check(text.subarray(0, depth)), `Invalid value. at ${depth}`)
})

test('integers of 64 bits are bigints, all other numbers doubles', () => {
  const read = (text: string): unknown => new JsonScanner(Buffer.from(text)).readValue()
  assert.equal(read('18446744073709551615'), 2n ** 64n - 1n)
  assert.equal(read('18446744073709551616'), 2 ** 64)
  assert.equal(read('-9223372036854775808'), -(2n ** 63n))
  assert.equal(read('-9223372036854775809'), -(2 ** 63))
  assert.equal(read('1.0'), 1)
  assert.equal(read('1e3'), 1000)
  assert.equal(read('-Infinity'), -Infinity)
  assert.equal(read('Inf'), Infinity)
  assert(Number.isNaN(read('-NaN')))
})

test('strings are decoded as JSON.parse decodes them', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const escaped = Array.from(text)
        .map((c) => (c.length === 1 ? `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}` : c))
        .join('')
      assert.equal(new JsonScanner(Buffer.from(JSON.stringify(text))).readValue(), text)
      assert.equal(new JsonScanner(Buffer.from(`"${escaped}"`)).readValue(), text)
    }),
    { numRuns: 500 },
  )
})

test('names with escapes are compared as what they stand for', () => {
  const key = Buffer.from('parameters')
  const is = (text: string): boolean => {
    const scanner = new JsonScanner(Buffer.from(`"${text}"`))
    scanner.scanString()
    return scanner.stringIs(key)
  }
  for (const text of ['parameters', '\\u0070arameters', 'p\\u0061rameter\\u0073', '\\u0070\\u0061rameters']) {
    assert.ok(is(text), text)
  }
  for (const text of [
    'parameter',
    'parameters\\n',
    'parameter\\n',
    '\\u0070',
    '\\ud83d\\ude00',
    '\\/',
    '\\u0170arameters',
  ]) {
    assert.ok(!is(text), text)
  }
})

test('a name with escapes is compared up to its first different character, however long it is, and no copy is made', (t) => {
  const copies = t.mock.method(Buffer, 'allocUnsafe')
  const readsToCompare = (name: string): number => {
    const { bytes, reads } = countedBytes(`"${name}"`)
    const scanner = new JsonScanner(bytes)
    scanner.scanString()
    const scanned = reads()
    for (const key of ['inputs', 'outputs', 'parameters', 'id']) assert.ok(!scanner.stringIs(Buffer.from(key)))
    return reads() - scanned
  }
  assert.equal(readsToCompare('\\n'.repeat(5)), 4 * 2)
  assert.equal(readsToCompare('\\n'.repeat(5000)), 4 * 2)
  assert.equal(readsToCompare('\\u0070'.repeat(5000)), 5 * 6)
  assert.equal(copies.mock.callCount(), 0)
})

/** Bytes that count how often one of them is read. */
function countedBytes(text: string): { bytes: Buffer; reads: () => number } {
  let reads = 0
  const bytes = new Proxy(Buffer.from(text), {
    get(target, name) {
      if (typeof name === 'string' && /^\d+$/.test(name)) reads++
      return Reflect.get(target, name, target) as unknown
    },
  })
  return { bytes, reads: () => reads }
}

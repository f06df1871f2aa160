import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ServerError } from '../base/server-error.ts'
import { asBoolean, asString, asUnsigned } from './json-access.ts'
import { memberOf, parseJsonDocument, requiredMember, type JsonNode } from './json-document.ts'

const parse = (text: string): JsonNode => parseJsonDocument(Buffer.from(text))

/** As JSON.parse would give it. */
function plain(node: JsonNode): unknown {
  if (node instanceof Map) return Object.fromEntries([...node].map(([name, value]) => [name, plain(value as JsonNode)]))
  if (Array.isArray(node)) return node.map(plain)
  return typeof node === 'bigint' ? Number(node) : node
}

test('a document is what JSON.parse makes of it', () => {
  const noPrototype = fc
    .jsonValue({ noUnicodeString: false })
    .filter((value) => !JSON.stringify(value).includes('__proto__'))
  fc.assert(
    fc.property(noPrototype, (value) => {
      // -0 is an integer, and integers have no negative zero.
      const text = JSON.stringify(value).replaceAll(/(?<![\d"])-0(?![.\d])/g, '0')
      fc.pre(Buffer.from(text).toString() === text)
      assert.deepEqual(plain(parse(text)), JSON.parse(text))
    }),
    { numRuns: 1000 },
  )
})

test('integers are bigints, other numbers are numbers', () => {
  assert.deepEqual(parse('[1,1.0,-9223372036854775808]'), [1n, 1, -(2n ** 63n)])
})

test('of two members of one name the first counts, and keys keep their order', () => {
  assert.deepEqual(
    [...(parse('{"b":1,"a":2,"b":3}') as Map<string, JsonNode>)],
    [
      ['b', 1n],
      ['a', 2n],
    ],
  )
})

test('malformed documents get the text of the parser', () => {
  assert.throws(
    () => parse('{"a":[1,{}'),
    new ServerError(
      'INTERNAL',
      "failed to parse the request JSON buffer: Missing a comma or ']' after an array element. at 10",
    ),
  )
  assert.throws(
    () => parse(''),
    new ServerError('INTERNAL', 'failed to parse the request JSON buffer: The document is empty. at 0'),
  )
})

test('a document of too many values is refused, whatever its depth', () => {
  const error = new ServerError('INVALID_ARG', 'the request JSON has more than 16384 values, the maximum')
  assert.throws(() => parse('['.repeat(70_000)), error)
  assert.throws(() => parse(`[${'{},'.repeat(70_000)}1]`), error)
})

test('members of what is no object are not there', () => {
  assert.equal(memberOf(parse('[1]'), 'a'), undefined)
  assert.equal(requiredMember(parse('{"a":null}'), 'a'), null)
  assert.throws(
    () => requiredMember(parse('{}'), 'a'),
    new ServerError('INTERNAL', "attempt to access non-existing object member 'a'"),
  )
})

test('a value of another type is refused with the type that was asked for', () => {
  const refuses = (read: (value: unknown) => unknown, text: string, message: string): void =>
    assert.throws(() => read(parse(text)), new ServerError('INTERNAL', `attempt to access JSON ${message}`))
  refuses(asString, '1', 'non-string as string')
  refuses(asBoolean, '1', 'non-boolean as boolean')
  refuses(asUnsigned, '-1', 'non-unsigned-integer as unsigned-integer')
  assert.equal(asUnsigned(parse('1')), 1n)
})

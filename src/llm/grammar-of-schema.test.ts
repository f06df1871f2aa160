import assert from 'node:assert/strict'
import { test } from 'node:test'
import { grammarOfSchema } from './grammar-of-schema.ts'
import { integerRange } from './integer-range.ts'
import { requireGrammar } from './require-grammar.ts'

const grammar = (schema: unknown): string => grammarOfSchema(JSON.stringify(schema))

test('a range of integers allows these and no others', () => {
  const bounds: [number | null, number | null][] = [[0, 120], [7, 7], [-15, 3], [-120, -7], [95, 1203], [10, null], [null, -3], [null, 42]] // prettier-ignore
  for (const [least, most] of bounds) {
    // What the expressions use of GBNF is the same in a regular expression, but for quotes and spaces.
    const pattern = new RegExp(`^(?:${integerRange(least, most).replaceAll(/[" ]/g, '')})$`)
    for (let value = -1500; value <= 1500; value++) {
      const isInside = value >= (least ?? -Infinity) && value <= (most ?? Infinity)
      assert.equal(pattern.test(String(value)), isInside, `${value} in ${least} to ${most}`)
    }
  }
})

test('an object has its required members in their order, and may leave out the others', () => {
  const text = grammar({
    type: 'object',
    properties: { a: { type: 'string' }, b: { enum: ['x"y', 1] } },
    required: ['a'],
  })
  assert.match(text, /"\\"a\\"" space ":" space string/)
  assert.match(text, /\("\\"x\\\\\\"y\\"" \| "1"\)/)
  assert.match(text, /\(space "," space r\d+\)\?/)
})

test('a schema may contain itself, and parts of it by their names', () => {
  const text = grammar({
    $defs: { node: { type: 'object', properties: { next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } } } },
    $ref: '#/$defs/node',
  })
  requireGrammar(text)
  assert.match(text, /^root ::= r0 space$/m)
})

test('a tuple of draft 7, items as a list, is one of prefixItems', () => {
  const parts = [{ type: 'integer' }, { type: 'boolean' }]
  const draft7 = { type: 'array', items: parts, minItems: 2, maxItems: 2 }
  assert.equal(grammar(draft7), grammar({ type: 'array', prefixItems: parts, minItems: 2, maxItems: 2 }))
  const open = grammar({ items: parts, additionalItems: { type: 'null' } })
  assert.equal(open, grammar({ prefixItems: parts, items: { type: 'null' } }))
  requireGrammar(open)
})

test('what cannot be kept is refused by name, and so is what makes no sense', () => {
  const refused: [schema: unknown, text: RegExp][] = [
    [{ type: 'string', pattern: '^a$' }, /has 'pattern', which answers cannot be held to/],
    [{ type: 'strin' }, /unknown 'type'/],
    [{ $ref: '#/nowhere' }, /'\$ref' to nothing/],
    [{ $ref: '#/%zz' }, /'\$ref' to nothing/],
    [{ $ref: 'https://example.com' }, /another document/],
    [{ enum: [] }, /'enum'/],
    [{ type: 'integer', minimum: 3, maximum: 2 }, /allows no integer/],
    [{ type: 'string', minLength: 3, maxLength: 2 }, /allows no string/],
    [{ type: 'array', items: {}, minItems: 3, maxItems: 2 }, /allows no array/],
    [{ type: 'array', items: false, minItems: 1 }, /allows no array/],
    [{ type: 'array', prefixItems: [{}], minItems: 2 }, /allows no array/],
    [{ type: 'object', properties: {}, required: ['a'] }, /requires a property/],
    [{ type: 'string', maxLength: 5000 }, /no whole number from 0 to 2000/],
    [{ enum: Array.from({ length: 2049 }, (_, i) => i) }, /more than 2048 values/],
    [17, /must be an object/],
  ]
  for (const [schema, text] of refused) assert.throws(() => grammar(schema), { code: 'INVALID_ARG', message: text })
  let deep: object = { type: 'string' }
  for (let i = 0; i < 80; i++) deep = { type: 'array', items: deep }
  assert.throws(() => grammar(deep), /nested more than 64 deep/)
  const properties = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`p${i}`, true]))
  assert.throws(() => grammar({ type: 'object', properties }), /more than 4096 rules/)
})

test('a grammar that repeats more than 2000 times, or nests its brackets too deep, is refused', () => {
  requireGrammar('root ::= "((((" [^)]{1,2000} # ((({9999}\nb ::= "x"{1,2000}')
  assert.throws(() => requireGrammar('root ::= ("a"{1,50}){1,50}'), /repeats more than 2000 times/)
  assert.throws(() => requireGrammar('root ::= "a"{99999}'), /repeats more than 2000 times/)
  assert.throws(() => requireGrammar(`root ::= ${'('.repeat(65)}"a"${')'.repeat(65)}`), /more than 64 brackets/)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { grammarOfSchema } from './grammar-of-schema.ts'
import { requireGrammar } from './require-grammar.ts'

test('repetitions behind each other add up, those inside each other multiply', () => {
  requireGrammar('root ::= [a]{100} [b]{100} [c]{100} ("x" [d]{10}){100} hex{8}')
  assert.throws(() => requireGrammar('root ::= (([a]{100}){30}){2}'), /repeats more than 2000 times/)
  assert.throws(() => requireGrammar('root ::= [a]{2001}'), /repeats more than 2000 times/)
  assert.throws(() => requireGrammar('root ::= [a]{1500} [b]{600}'), /repeats more than 2000 times/)
  requireGrammar('root ::= [a]{1500}\nb ::= [b]{600}')
  assert.throws(() => requireGrammar(`root ::= ${'('.repeat(65)}"a"${')'.repeat(65)}`), /more than 64 brackets/)
})

test('a repetition is read with the spaces and comments in it, and its numbers must not be the wrong way round', () => {
  assert.throws(() => requireGrammar('root ::= [a]{ 1 , # {\n 2001 }'), /repeats more than 2000 times/)
  assert.throws(() => requireGrammar('root ::= ([a]{ 50\t}){\n50 }'), /repeats more than 2000 times/)
  assert.throws(() => requireGrammar('root ::= [a]{5,1}'), /a repetition of at least 5 and at most 1/)
  assert.throws(() => requireGrammar('root ::= [a]{ 5, 0 }'), /a repetition of at least 5 and at most 0/)
  requireGrammar('root ::= [a]{5,} [b]{0,0} [c]{5,5}')
})

test('every grammar that a usual schema becomes is taken', () => {
  const properties = { a: { type: 'number' }, b: { type: 'string' }, c: { type: 'array', items: { type: 'integer' } } }
  requireGrammar(grammarOfSchema(JSON.stringify({ type: 'object', properties, required: ['a'] })))
  requireGrammar(grammarOfSchema('{"type": "object"}'))
})

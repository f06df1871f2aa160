import assert from 'node:assert/strict'
import { test } from 'node:test'

import type { ParameterValue } from '../../model/parameters.ts'
import { ForwardPattern } from '../../protocol/forward-pattern.ts'
import { HeaderForwarding } from './header-forwarding.ts'

const matching = (pattern: string): ForwardPattern => new ForwardPattern('--http-header-forward-pattern', pattern)

const forwarded = (pattern: string, headers: readonly string[]): Record<string, ParameterValue> => {
  const parameters = new Map<string, ParameterValue>()
  new HeaderForwarding(pattern).forward(headers, parameters)
  return Object.fromEntries(parameters)
}

test('the pattern matches anywhere in the name, in any case; names keep their spelling, the last value counts', () => {
  const pattern = '(fwd_.*|x-case)'
  assert.deepEqual(forwarded(pattern, ['fwd_a', '1', 'FWD_B', 'Two', 'other', '3']), { fwd_a: '1', FWD_B: 'Two' })
  assert.deepEqual(forwarded(pattern, ['X-Case', 'Mixed']), { 'X-Case': 'Mixed' })
  assert.deepEqual(forwarded(pattern, ['x-case-more', 'v']), { 'x-case-more': 'v' })
  assert.deepEqual(forwarded(pattern, ['fwd_a', '1', 'fwd_a', '2']), { fwd_a: '2' })
})

test('a value is read as UTF-8', () => {
  assert.deepEqual(forwarded('x', ['x', Buffer.from('é').toString('latin1')]), { x: 'é' })
})

test('a header that is called like a reserved parameter is refused', () => {
  for (const name of ['sequence_id', 'priority', 'timeout', 'headers', 'binary_data_output', 'triton_x']) {
    assert.throws(() => forwarded('.*', [name, '1']), {
      code: 'INVALID_ARG',
      message: `Header '${name}' is reserved for Triton usage and cannot be forwarded.`,
    })
  }
  assert.deepEqual(forwarded('fwd_.*', ['priority', '1']), {})
})

test('long names are matched like others, and a pattern that makes others try all ways comes to an end', () => {
  assert.deepEqual(Object.keys(forwarded('.*', ['a'.repeat(2000), '1'])), ['a'.repeat(2000)])
  // An engine that goes back and tries again would need more than 2⁹⁰ steps.
  assert.deepEqual(forwarded('^x-([a-z0-9]+-?)*id$', [`x-${'a'.repeat(100)}!`, '1']), {})
})

test('RE2 spellings are understood', () => {
  assert.ok(matching('(?i)\\Ax-[[:alpha:]]+\\z').matches('X-Abc'))
  assert.ok(!matching('\\Ax-[[:digit:]]+\\z').matches('x-abc'))
  assert.ok(matching('(?P<name>fwd)').matches('fwd'))
})

test('a pattern that is not valid is refused with the flag and the reason', () => {
  assert.throws(() => matching('('), {
    code: 'INVALID_ARG',
    message: /^--http-header-forward-pattern '\(' is not a valid regular expression: /,
  })
  assert.throws(() => matching('(?=a)'), { message: /invalid perl operator: \(\?=/ })
  assert.throws(() => matching('(a)\\1'), { message: /invalid escape sequence: \\1/ })
})

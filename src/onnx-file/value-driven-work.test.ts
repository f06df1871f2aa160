import assert from 'node:assert/strict'
import { test } from 'node:test'

import { workFollowsValues, type OnnxNode } from './value-driven-work.ts'

const node = (operator: string, inputs: string[], outputs: string[], domain = ''): OnnxNode => ({
  operator,
  domain,
  inputs,
  outputs,
})

test('a length that a client sends drives the work, a constant one or one that comes from sizes does not', () => {
  const fill = (shape: string): OnnxNode[] => [node('ConstantOfShape', [shape], ['f']), node('Cos', ['f'], ['y'])]
  assert.equal(workFollowsValues(fill('x'), ['x']), true)
  assert.equal(workFollowsValues(fill('c'), ['x']), false)
  assert.equal(workFollowsValues([node('Shape', ['x'], ['s']), ...fill('s')], ['x']), false)
  assert.equal(
    workFollowsValues([node('Size', ['x'], ['s']), node('Add', ['s', 'c'], ['t']), ...fill('t')], ['x']),
    false,
  )
  assert.equal(
    workFollowsValues([node('Shape', ['x'], ['s']), node('Mul', ['s', 'x'], ['t']), ...fill('t')], ['x']),
    true,
  )
})

test('operators that take a length, a count or a place among their inputs', () => {
  for (const [operator, index] of [
    ['Range', 1],
    ['Expand', 1],
    ['Tile', 1],
    ['Resize', 2],
    ['Pad', 1],
    ['OneHot', 1],
    ['TopK', 1],
    ['Slice', 2],
    ['Reshape', 1],
  ] as const) {
    const inputs = ['a', 'b', 'c', 'd']
    inputs[index] = 'x'
    assert.equal(workFollowsValues([node(operator, inputs, ['y'])], ['x']), true, operator)
    assert.equal(workFollowsValues([node(operator, ['x', 'b', 'c', 'd'], ['y'])], ['z']), false, operator)
  }
})

test('operators that are not known to follow sizes count as driven by values', () => {
  for (const operator of [
    'NonZero',
    'NonMaxSuppression',
    'Loop',
    'Scan',
    'If',
    'Unique',
    'Compress',
    'SequenceAt',
    'New',
  ]) {
    assert.equal(workFollowsValues([node(operator, ['a'], ['y'])], []), true, operator)
  }
  assert.equal(workFollowsValues([node('Add', ['a', 'x'], ['y'])], ['x']), false)
  assert.equal(workFollowsValues([node('Add', ['a', 'x'], ['y'], 'my.library')], ['x']), true)
  assert.equal(workFollowsValues(null, []), true)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ensembleGraph } from './ensemble-graph.ts'

const step = (model_name: string, takes: string[], gives: string[]) => ({
  model_name,
  input_map: Object.fromEntries(takes.map((tensor) => [`${tensor}_in`, tensor])),
  output_map: Object.fromEntries(gives.map((tensor) => [`${tensor}_out`, tensor])),
})

test('a step stands right of everything that it waits for, whatever the order of the steps', () => {
  const { nodes, edges, columns, rows } = ensembleGraph({
    inputs: ['picture'],
    outputs: ['text'],
    steps: [step('join', ['boxes', 'words'], ['text']), step('find', ['picture'], ['boxes']), step('read', ['picture', 'boxes'], ['words'])], // prettier-ignore
  })
  const columnOf = (name: string): number => nodes.find((node) => node.name === name)?.column ?? -1
  assert.deepEqual(['picture', 'find', 'read', 'join', 'text'].map(columnOf), [0, 1, 2, 3, 4])
  assert.deepEqual([columns, rows, edges.length], [5, 1, 6])
})

test('a circle, which servers refuse, ends too', () => {
  const { columns } = ensembleGraph({ inputs: [], outputs: [], steps: [step('a', ['x'], ['y']), step('b', ['y'], ['x'])] }) // prettier-ignore
  assert.ok(columns <= 4)
})

import assert from 'node:assert/strict'
import test from 'node:test'
import { emptyModelConfig } from '../../config/model-config.ts'
import type { PolledModel } from '../../repository/model-repository.ts'
import { EnsembleGraph } from './ensemble-graph.ts'

function modelOf(name: string, parts: readonly string[]): PolledModel {
  const step = parts.map((modelName) => ({
    modelName,
    modelVersion: -1,
    inputMap: new Map<string, string>(),
    outputMap: new Map<string, string>(),
    modelNamespace: '',
  }))
  const ensemble = { platform: 'ensemble', ensembleScheduling: { step, maxInflightRequests: 0 } }
  const config = { ...emptyModelConfig(), name, ...(parts.length > 0 ? ensemble : {}) }
  return {
    name,
    error: null,
    config,
    modelDirectory: '',
    repositoryPath: '',
    versions: ['1'],
    fingerprint: '',
    hints: [],
  }
}

function graphOf(parts: Readonly<Record<string, readonly string[]>>): EnsembleGraph {
  const graph = new EnsembleGraph()
  for (const [name, each] of Object.entries(parts)) graph.note(modelOf(name, each))
  return graph
}

test('parts come before the ensembles that call them; otherwise the order stays', () => {
  const graph = graphOf({ top: ['middle', 'x'], middle: ['x', 'x'] })
  assert.deepEqual(graph.partsFirst(['top', 'y', 'middle', 'x']), ['y', 'x', 'middle', 'top'])
  assert.deepEqual(graph.partsOf('middle'), ['x'])
})

test('dependents are found through other ensembles', () => {
  assert.deepEqual(graphOf({ top: ['middle'], middle: ['x'], other: ['y'] }).dependentsOf('x'), ['middle', 'top'])
})

test('a cycle is told of those in it, not of those that lead into it', () => {
  const graph = graphOf({ a: ['b'], b: ['c'], c: ['a'], out: ['a'], self: ['self'] })
  assert.equal(graph.cycleText('a'), 'circular dependency between ensembles: a -> ... -> c -> a')
  assert.equal(graph.cycleText('self'), 'circular dependency between ensembles: self -> ... -> self -> self')
  assert.equal(graph.cycleText('out'), null)
  assert.ok(graph.depthOf('out') > 0)
})

test('a model that is no ensemble any more has no parts', () => {
  const graph = graphOf({ a: ['x'] })
  graph.note(modelOf('a', []))
  assert.equal(graph.isEnsemble('a'), false)
  assert.deepEqual(graph.dependentsOf('x'), [])
})

test('many ensembles that share parts are ordered without walking every path', () => {
  const layers = 60
  const parts: Record<string, string[]> = {}
  for (let i = 0; i < layers; i++) for (const side of ['l', 'r']) parts[`${side}${i}`] = [`l${i + 1}`, `r${i + 1}`]
  assert.equal(graphOf(parts).depthOf('l0'), layers)
})

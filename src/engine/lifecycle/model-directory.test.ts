import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { modelKey, modelLabel, splitModelKey } from '../../model/model-key.ts'
import { ModelDirectory, nameInFull } from './model-directory.ts'

test('without namespaces a name is its key, and there is one map', () => {
  const directory = new ModelDirectory(false)
  const model = directory.open('m')
  assert.equal(directory.byName.get('m'), model)
  assert.equal(directory.byName, directory.byKey)
  assert.deepEqual(directory.allOf('m'), ['m'])
  assert.equal(directory.unknown('x').message, "Request for unknown model: 'x' is not found")
  assert.equal(directory.unknown('x').code, 'NOT_FOUND')
})

test('a name stands for a model as long as it is the only one listed under it', () => {
  const directory = new ModelDirectory(true)
  const inA = directory.open(modelKey('/A', 'm'))
  const inB = directory.open(modelKey('/B', 'm'))
  assert.equal(directory.byName.get('m'), undefined)
  assert.equal(directory.unknown('m').code, 'INVALID_ARG')
  directory.list(inA, true)
  assert.equal(directory.byName.get('m'), inA)
  directory.list(inB, true)
  assert.equal(directory.byName.get('m'), undefined)
  assert.match(directory.unknown('m').message, /^There are 2 identifiers of model 'm'/)
  assert.equal(directory.byName.get('/A::m'), inA)
  assert.equal(directory.byName.get('%2FB%3A%3Am'), inB)
  directory.list(inA, false)
  assert.equal(directory.byName.get('m'), inB)
  assert.equal(directory.byName.get('/A::m'), undefined)
  directory.list(inB, false)
  assert.equal(directory.unknown('m').message, "Identifier of model 'm' is not found in global map")
  assert.deepEqual(directory.allOf('m'), [inA.key, inB.key])
  assert.deepEqual(directory.allOf('%2fB%3a%3am'), [inB.key])
})

test('files that came with a load have a namespace of their own, which is not shown', () => {
  const directory = new ModelDirectory(true)
  const uploaded = directory.open(modelKey('', 'm'))
  directory.list(uploaded, true)
  assert.equal(uploaded.label, 'm')
  assert.equal(directory.byName.get('m'), uploaded)
  directory.list(directory.open(modelKey('/A', 'm')), true)
  assert.equal(directory.byName.get('m'), undefined)
})

test('a key is taken apart into what it was made of', () => {
  const part = fc.string().filter((text) => !text.includes('\0'))
  fc.assert(
    fc.property(fc.option(part, { nil: undefined }), part, (namespace, name) => {
      const key = modelKey(namespace, name)
      assert.deepEqual(splitModelKey(key), { namespace, name })
      assert.equal(nameInFull(encodeURIComponent(`${modelLabel(key)}::x`)), `${modelLabel(key)}::x`)
    }),
  )
  assert.equal(nameInFull('%3A%3A%'), '%3A%3A%')
})

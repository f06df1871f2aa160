import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { silentLog } from '../base/log.ts'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import { LocalStore } from './local-store.ts'
import { MappedFolders, mappedRoot } from './mapped-folders.ts'
import { ModelRepository } from './model-repository.ts'

const config = 'name: "other" backend: "identity"'
const repositoryOf = (store: MappedFolders): ModelRepository =>
  new ModelRepository(
    { log: silentLog, store },
    { roots: [mappedRoot], modelConfigName: '', isAutoCompleteDisabled: false },
  )

test('a mapped folder is a model under the name that it is mapped to', async () => {
  const { root, remove } = await temporaryRepository({ 'x/m/config.pbtxt': config, 'x/m/1/': '', 'x/m/3/': '' })
  const store = new MappedFolders(new LocalStore())
  store.map('mine', { folder: `${path.join(root, 'x/m')}/`, configText: null })
  const found = await repositoryOf(store).pollOne('mine')
  assert.ok(found?.error === null)
  assert.deepEqual(
    [found.config.name, found.versions, found.modelDirectory],
    ['mine', ['1', '3'], path.join(root, 'x/m')],
  )
  await store.unmap('mine')
  assert.equal(await repositoryOf(store).pollOne('mine'), null)
  await remove()
})

test('a text stands in for a configuration that is not there, and only then', async () => {
  const { root, remove } = await temporaryRepository({ 'a/1/': '', 'b/1/': '', 'b/config.pbtxt': config })
  const store = new MappedFolders(new LocalStore())
  for (const name of ['a', 'b']) store.map(name, { folder: path.join(root, name), configText: 'backend: "python"' })
  const backends = (await repositoryOf(store).poll()).map((found) => (found.error === null ? found.config.backend : ''))
  assert.deepEqual(backends, ['python', 'identity'])
  await remove()
})

test('a version folder that is a SavedModel is found where backends look for one', async () => {
  const { root, remove } = await temporaryRepository({
    'half/7/saved_model.pb': 'graph',
    'half/7/variables/v.index': '',
  })
  const store = new MappedFolders(new LocalStore())
  store.map('half', { folder: path.join(root, 'half'), configText: null })
  const found = await repositoryOf(store).pollOne('half')
  assert.ok(found?.error === null, String(found?.error))
  assert.equal(found.config.platform, 'tensorflow_savedmodel')
  const file = path.join(found.modelDirectory, '7/model.savedmodel/saved_model.pb')
  assert.equal(await readFile(file, 'utf8'), 'graph')
  assert.ok(found.files?.has('7/model.savedmodel/variables/v.index'))
  const again = await repositoryOf(store).pollOne('half')
  assert.ok(again?.error === null)
  assert.deepEqual([again.modelDirectory, again.fingerprint], [found.modelDirectory, found.fingerprint])
  await store.close()
  assert.ok(!existsSync(found.modelDirectory))
  await remove()
})

test('versions of a mapped folder may begin with zeros, where its front end says so', async () => {
  const { root, remove } = await temporaryRepository({
    'half/00000123/saved_model.pb': 'graph',
    'half/warmup/file': '',
    'plain/007/model.onnx': 'seven',
    'plain/7/model.onnx': 'other',
    'plain/0010/model.onnx': 'ten',
  })
  const store = new MappedFolders(new LocalStore())
  const poll = async (name: string, hasPaddedVersions: boolean): Promise<[readonly string[], string]> => {
    store.map(name, {
      folder: path.join(root, name),
      configText: 'backend: "identity" version_policy { all { } }',
      hasPaddedVersions,
    })
    const found = await repositoryOf(store).pollOne(name)
    assert.ok(found?.error === null, String(found?.error))
    return [found.versions, found.modelDirectory]
  }
  const [versions, folder] = await poll('half', true)
  assert.deepEqual(versions, ['123'])
  assert.equal(await readFile(path.join(folder, '123/model.savedmodel/saved_model.pb'), 'utf8'), 'graph')
  assert.deepEqual(await poll('plain', false), [['7'], path.join(root, 'plain')])
  const [both, linked] = await poll('plain', true)
  assert.deepEqual(both, ['7', '10'])
  const models = ['7', '10'].map((version) => readFile(path.join(linked, version, 'model.onnx'), 'utf8'))
  assert.deepEqual(await Promise.all(models), ['other', 'ten'])
  await store.close()
  await remove()
})

test('names that lead elsewhere are refused, and 10000 models are the most', () => {
  const store = new MappedFolders(new LocalStore())
  const model = { folder: '/nowhere', configText: null }
  assert.throws(() => store.map('../m', model), { code: 'INVALID_ARG' })
  for (let i = 0; i < 10_000; i++) store.map(`m${i}`, model)
  assert.throws(() => store.map('one more', model), { code: 'UNAVAILABLE' })
  store.map('m1', model)
})

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

test('names that lead elsewhere are refused, and 10000 models are the most', () => {
  const store = new MappedFolders(new LocalStore())
  const model = { folder: '/nowhere', configText: null }
  assert.throws(() => store.map('../m', model), { code: 'INVALID_ARG' })
  for (let i = 0; i < 10_000; i++) store.map(`m${i}`, model)
  assert.throws(() => store.map('one more', model), { code: 'UNAVAILABLE' })
  store.map('m1', model)
})

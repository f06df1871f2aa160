// Poll mode over a real folder that others write to while it is looked at.

import assert from 'node:assert/strict'
import { appendFile, copyFile, mkdir, readFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'node:test'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { ServerError } from '../base/server-error.ts'
import type { ModelVersionSource } from '../model/backend.ts'
import { ContentIndex } from '../repository/content-index.ts'
import { ModelRepository } from '../repository/model-repository.ts'
import { LocalStore } from '../repository/local-store.ts'
import { Engine } from './engine.ts'
import { RepositoryPoller } from './lifecycle/repository-poller.ts'
import { engineOptions } from '../../test/fixtures/engine-options.ts'
import { FakeBackend } from '../../test/fakes/fake-backend.ts'

const config = `backend: "reading"
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
`

/** Its models are what is in their `weights` at the moment of the load. */
class ReadingBackend extends FakeBackend {
  /** Called between the decision to load and the read. */
  beforeRead: () => Promise<void> = () => Promise.resolve()

  override async read({ files }: ModelVersionSource): Promise<string> {
    await this.beforeRead()
    return readFile(join(files.versionDirectory, 'weights'), 'utf8').catch((reason: unknown) => {
      throw ServerError.from(reason, 'cannot read the weights: ')
    })
  }
}

async function polledFolder(context: test.TestContext, files: Record<string, string>) {
  const { root, remove } = await temporaryRepository(files)
  context.after(remove)
  const clock = new ManualClock()
  const log = new MemoryLog()
  const backend = new ReadingBackend('reading')
  const options = { roots: [root], modelConfigName: '', isAutoCompleteDisabled: false }
  const repository = new ModelRepository({ log, store: new LocalStore(new ContentIndex()) }, options)
  const engine = new Engine(
    { clock, log, repository, findBackend: () => Promise.resolve(backend), closeBackends: () => backend.close() },
    engineOptions,
  )
  await engine.start()
  const poller = new RepositoryPoller(
    {
      clock,
      log,
      poll: () => repository.poll(),
      load: (name) => engine.follow(name),
      unload: async (name) => (await engine.unload(name)).gone,
    },
    15,
    engine.index().map(({ name }) => name),
  )
  context.after(() => poller.close())
  const weights = join(root, 'm/1/weights')
  const looks = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) await poller.look()
  }
  return { root, weights, engine, backend, log, looks }
}

const oneModel = { 'm/config.pbtxt': config, 'm/1/weights': 'one' }

test('a file that is still being written is not loaded until it has stood still', async (context) => {
  const { weights, backend, looks } = await polledFolder(context, oneModel)
  await looks(3)
  for (const part of [' two', ' three', ' four']) {
    await appendFile(weights, part)
    await looks(1)
  }
  assert.deepEqual(backend.loaded, ['one'])
  await looks(2)
  assert.deepEqual(backend.loaded, ['one', 'one two three four'])
  await looks(3)
  assert.equal(backend.loaded.length, 2, 'and then once')
})

test('rsync and git: a file written beside its place and renamed is one change', async (context) => {
  const { weights, backend, looks } = await polledFolder(context, oneModel)
  await looks(3)
  await writeFile(join(weights, '../.weights.Xy12Zw'), 'tw')
  await looks(1)
  await writeFile(join(weights, '../.weights.Xy12Zw'), 'two')
  await rename(join(weights, '../.weights.Xy12Zw'), weights)
  await looks(2)
  assert.deepEqual(backend.loaded, ['one', 'two'])
})

test('several files replaced one after the other are loaded together', async (context) => {
  const { root, weights, backend, engine, looks } = await polledFolder(context, oneModel)
  await looks(3)
  await writeFile(weights, 'two')
  await looks(1)
  await writeFile(join(root, 'm/config.pbtxt'), `${config} max_batch_size: 4`)
  await looks(1)
  assert.deepEqual(backend.loaded, ['one'])
  await looks(1)
  assert.deepEqual(backend.loaded, ['one', 'two'])
  assert.equal(engine.findVersion('m', '').config.maxBatchSize, 4)
})

test('a version that is a link is followed to its new place in one step', async (context) => {
  const { root, backend, looks } = await polledFolder(context, { 'm/config.pbtxt': config, 'm/1/weights': 'zero' })
  await mkdir(join(root, '.releases/a'), { recursive: true })
  await mkdir(join(root, '.releases/b'))
  await writeFile(join(root, '.releases/a/weights'), 'a')
  await writeFile(join(root, '.releases/b/weights'), 'b')
  await rm(join(root, 'm/1'), { recursive: true })
  for (const release of ['a', 'b', 'a']) {
    await symlink(`../.releases/${release}`, join(root, 'm/.next'))
    await rename(join(root, 'm/.next'), join(root, 'm/1'))
    await looks(3)
  }
  assert.deepEqual(backend.loaded, ['zero', 'a', 'b', 'a'])
})

test('files that were touched or copied anew are not loaded again', async (context) => {
  const { weights, backend, looks } = await polledFolder(context, oneModel)
  await looks(3)
  await utimes(weights, new Date(), new Date())
  await looks(2)
  await copyFile(weights, `${weights}.new`)
  await rename(`${weights}.new`, weights)
  await looks(3)
  assert.deepEqual(backend.loaded, ['one'])
})

test('a file that goes while the model loads is a reason, and what served goes on serving', async (context) => {
  const { weights, backend, engine, log, looks } = await polledFolder(context, oneModel)
  await looks(3)
  await writeFile(weights, 'two')
  backend.beforeRead = () => rm(weights)
  await looks(2)
  assert.ok(log.entries.some(({ level, message }) => level === 'error' && /cannot read the weights/.test(message)))
  assert.equal(engine.isModelReady('m', ''), true)
  assert.deepEqual(engine.index()[0]?.state, 'READY')
  backend.beforeRead = () => Promise.resolve()
  await writeFile(weights, 'three')
  await looks(3)
  assert.deepEqual(backend.loaded, ['one', 'three'])
})

test('a folder that goes is a model that goes', async (context) => {
  const { root, engine, looks } = await polledFolder(context, oneModel)
  await looks(3)
  await rm(join(root, 'm'), { recursive: true })
  await looks(1)
  assert.equal(engine.isModelReady('m', ''), false)
  assert.equal(engine.index()[0]?.reason, 'unloaded')
})

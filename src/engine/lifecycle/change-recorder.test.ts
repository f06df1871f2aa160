// What is put on record of changes to real folders, and where the files of load requests go.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { temporaryRepository } from '../../../test/fixtures/temporary-repository.ts'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import type { ModelVersionSource } from '../../model/backend.ts'
import { changeOrigin } from '../../model/change-origin.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { ContentIndex } from '../../repository/content-index.ts'
import { ModelRepository } from '../../repository/model-repository.ts'
import { LocalStore } from '../../repository/local-store.ts'
import { RegistryReader } from '../../repository/registry-reader.ts'
import { parseModelConfigText } from '../../repository/text-format-reader.ts'
import { Engine } from '../engine.ts'
import { FakeBackend } from '../../../test/fakes/fake-backend.ts'

const config = `backend: "reading"
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
`

class ReadingBackend extends FakeBackend {
  /** Called with the weights that a load has read, before it goes on. */
  afterRead: (weights: string) => Promise<void> = () => Promise.resolve()

  override async read({ files }: ModelVersionSource): Promise<string> {
    const weights = await readFile(join(files.versionDirectory, 'weights'), 'utf8')
    await this.afterRead(weights)
    return weights
  }
}

async function engineOver(context: TestContext, files: Record<string, string>) {
  const { root, remove } = await temporaryRepository(files)
  context.after(remove)
  // Uploads of this test alone are in here.
  const uploads = join(root, '.uploads')
  await mkdir(uploads)
  const usual = process.env['TMPDIR']
  process.env['TMPDIR'] = uploads
  context.after(() => {
    if (usual === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = usual
  })
  const clock = new ManualClock()
  const log = new MemoryLog()
  const backend = new ReadingBackend('reading')
  const contents = new ContentIndex()
  const store = new LocalStore(contents)
  const options = { roots: [root], modelConfigName: '', isAutoCompleteDisabled: false }
  const engine = new Engine(
    {
      clock,
      log,
      contents,
      registryReader: new RegistryReader({ log, store }, [root]),
      repository: new ModelRepository({ log, store }, options),
      findBackend: () => Promise.resolve(backend),
      closeBackends: () => backend.close(),
    },
    {
      id: 'galatea',
      reportedVersion: '0',
      isStrictReadiness: true,
      isModelControlExplicit: true,
      allowsModelUploads: true,
      loadModels: [],
      modelLoadThreadCount: 4,
      modelLoadRetryCount: 0,
      isAutoCompleteDisabled: false,
      gpuCount: 0,
      defaultMaxQueueSize: 'auto',
    },
  )
  await engine.start()
  context.after(() => engine.close(0))
  return { root, engine, backend, log, uploadFolders: () => readdir(uploads) }
}

const override = (): ModelConfig => ({ ...parseModelConfigText(config).config, name: 'm' })
const upload = (weights: string) => ({
  config: override(),
  files: new Map([['1/weights', Buffer.from(weights)]]),
})

const hashOf = (weights: string): string => {
  const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
  return `sha256:${sha256(`${sha256(weights)}  weights\n`)}`
}

const http = changeOrigin('http', { address: '10.0.0.1' })

test('of files that came with load requests, only those that serve are kept, however the requests overlap', async (context) => {
  const { engine, uploadFolders } = await engineOver(context, { 'm/config.pbtxt': config, 'm/1/weights': 'own' })
  await Promise.all(['a', 'b', 'c', 'd', 'e'].map((weights) => engine.load('m', upload(weights), http)))
  assert.equal((await uploadFolders()).length, 1)
  assert.equal((await engine.registry.describe('m')).override, 'files')
  await Promise.all([engine.load('m', upload('f'), http), engine.load('m', upload('g'), http)])
  assert.equal((await uploadFolders()).length, 1)
  await engine.load('m', null, http)
  assert.deepEqual(await uploadFolders(), [], 'the repository serves again')
  assert.equal((await engine.registry.describe('m')).override, '')
  await engine.load('m', upload('h'), http)
  await (
    await engine.unload('m', false, http)
  ).gone
  assert.deepEqual(await uploadFolders(), [])
})

test('files of a load that failed are gone, and what served goes on', async (context) => {
  const { engine, backend, uploadFolders } = await engineOver(context, {})
  await engine.load('m', upload('good'), http)
  backend.afterRead = () => Promise.reject(new Error('no'))
  await assert.rejects(engine.load('m', upload('bad'), http))
  assert.equal((await uploadFolders()).length, 1)
  assert.deepEqual((await engine.registry.describe('m')).versions.map(({ content }) => `sha256:${content?.hash}`), [hashOf('good')]) // prettier-ignore
})

test('the hash is of the files as they were read, though they change while the model loads', async (context) => {
  const { root, engine, backend } = await engineOver(context, { 'm/config.pbtxt': config, 'm/1/weights': 'old' })
  backend.afterRead = async () => writeFile(join(root, 'm/1/weights'), 'changed meanwhile')
  await engine.load('m', null, http)
  const { versions } = await engine.registry.describe('m')
  assert.deepEqual(
    versions.map(({ content }) => `sha256:${content?.hash}`),
    [hashOf('old')],
  )
})

test('a model that cannot even be read has its reason on record and in the index', async (context) => {
  const { engine } = await engineOver(context, { 'm/config.pbtxt': 'nonsense: 1\n', 'm/1/weights': '' })
  await assert.rejects(engine.load('m', null, http), {
    message: "failed to load 'm', failed to poll from model repository",
  })
  const [entry] = await engine.registry.history('m', 1)
  assert.equal(entry?.outcome, 'failed')
  assert.match(entry?.reason ?? '', /unknown field 'nonsense'/)
  // The answer to the load says no more than Triton's; both indexes do.
  assert.match((await engine.repositoryIndex(false))[0]?.reason ?? '', /unknown field 'nonsense'/)
  assert.match((await engine.registry.detailedIndex(false))[0]?.reason ?? '', /unknown field 'nonsense'/)
})

test('what an ensemble brings along is on record as its doing', async (context) => {
  const ensemble = `platform: "ensemble"
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling { step { model_name: "part" model_version: -1
  input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } }
`
  const { root, engine } = await engineOver(context, {
    'part/config.pbtxt': config,
    'part/1/weights': '1',
    'whole/config.pbtxt': ensemble,
    'whole/1/.keep': '',
  })
  const last = async (model: string) => {
    const [entry] = await engine.registry.history(model, 1)
    return [entry?.action, entry?.outcome, entry?.address, entry?.because]
  }
  await engine.load('whole', null, http)
  assert.deepEqual(await last('part'), ['load', 'ok', '10.0.0.1', 'whole'])
  assert.deepEqual(await last('whole'), ['load', 'ok', '10.0.0.1', undefined])
  await writeFile(join(root, 'part/1/weights'), '2')
  await engine.load('part', null, http)
  assert.deepEqual(await last('part'), ['reload', 'ok', '10.0.0.1', undefined])
  assert.deepEqual(await last('whole'), ['reload', 'ok', '10.0.0.1', 'part'])
  await engine.unload('part', false, http)
  assert.deepEqual(await last('whole'), ['unload', 'ok', '10.0.0.1', 'part'])
})

test('a model in two repositories is in the index with its reason, also among those that are ready', async (context) => {
  const first = await temporaryRepository({ 'm/config.pbtxt': config, 'm/1/weights': '' })
  const second = await temporaryRepository({ 'm/config.pbtxt': config, 'm/1/weights': '' })
  context.after(first.remove)
  context.after(second.remove)
  const log = new MemoryLog()
  const options = { roots: [first.root, second.root], modelConfigName: '', isAutoCompleteDisabled: false }
  const repository = new ModelRepository({ log, store: new LocalStore() }, options)
  assert.deepEqual([...(await repository.duplicates())], ['m'])
  const settings = { id: '', reportedVersion: '', isStrictReadiness: true, isModelControlExplicit: true,  allowsModelUploads: true, loadModels: [], modelLoadThreadCount: 1, modelLoadRetryCount: 0, isAutoCompleteDisabled: false, gpuCount: 0, defaultMaxQueueSize: 'auto' } as const // prettier-ignore
  const engine = new Engine(
    { clock: new ManualClock(), log, repository, findBackend: () => Promise.resolve(null), closeBackends: () => Promise.resolve() }, // prettier-ignore
    settings,
  )
  const row = { name: 'm', version: '', state: 'UNAVAILABLE', reason: 'model appears in two or more repositories' }
  assert.deepEqual(await engine.repositoryIndex(false), [row])
  assert.deepEqual(await engine.repositoryIndex(true), [row])
})

test('a name that is a path is refused and leaves no model behind', async (context) => {
  const { engine } = await engineOver(context, { 'm/config.pbtxt': config, 'm/1/weights': 'a' })
  for (const name of ['..', '.', '../m', 'a/b']) {
    await assert.rejects(engine.load(name), {
      code: 'INTERNAL',
      message: `failed to load '${name}', failed to poll from model repository`,
    })
    assert.equal(engine.servedModel(name), undefined, name)
  }
})

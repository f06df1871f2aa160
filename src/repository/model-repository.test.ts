import assert from 'node:assert/strict'
import { mkdir, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { emptyModelConfig } from '../config/model-config.ts'
import { ModelRepository, type FoundModel, type ModelRepositoryOptions, type PolledModel } from './model-repository.ts'
import { LocalStore } from './local-store.ts'

type Files = Readonly<Record<string, string>>

async function repositoryOf(
  context: TestContext,
  files: Files,
  options: Partial<ModelRepositoryOptions> = {},
): Promise<{ root: string; repository: ModelRepository; log: MemoryLog }> {
  const { root, remove } = await temporaryRepository(files)
  context.after(remove)
  const log = new MemoryLog()
  const settings = { roots: [root], modelConfigName: '', isAutoCompleteDisabled: false, ...options }
  return { root, repository: new ModelRepository({ log, store: new LocalStore() }, settings), log }
}

function found(model: PolledModel | null | undefined): FoundModel {
  assert.ok(model)
  if (model.error !== null) throw model.error
  return model
}

const onnx = 'backend: "onnxruntime"\n'

test('a poll finds every model folder and passes over files, hidden folders and lost+found', async (context) => {
  const { repository, root } = await repositoryOf(context, {
    'b/1/model.onnx': '',
    'a/1/model.py': '',
    'README.md': '',
    '.git/config': '',
    '..data/x': '',
    'lost+found/': '',
  })
  const models = await repository.poll()
  assert.deepEqual(
    models.map((model) => model.name),
    ['a', 'b'],
  )
  const b = found(models[1])
  assert.deepEqual([b.modelDirectory, b.repositoryPath, b.versions], [join(root, 'b'), root, ['1']])
  assert.deepEqual([b.config.name, b.config.backend, b.config.platform], ['b', 'onnxruntime', 'onnxruntime_onnx'])
  assert.deepEqual(b.config.versionPolicy, { latest: { numVersions: 1 }, all: null, specific: null })
})

test('version folders are whole numbers, listed ascending; everything else is no version', async (context) => {
  const { repository } = await repositoryOf(context, {
    'm/config.pbtxt': onnx,
    'm/10/': '',
    'm/9/': '',
    'm/007/': '',
    'm/0/': '',
    'm/warmup/': '',
    'm/initial_state/': '',
    'm/configs/': '',
    'm/1': 'a file',
  })
  assert.deepEqual(found(await repository.pollOne('m')).versions, ['0', '9', '10'])
})

test('--model-config-name picks configs/<name>.pbtxt and falls back to config.pbtxt', async (context) => {
  const { repository } = await repositoryOf(
    context,
    {
      'a/config.pbtxt': `${onnx}max_batch_size: 1`,
      'a/configs/gpu.pbtxt': `${onnx}max_batch_size: 8`,
      'b/config.pbtxt': `${onnx}max_batch_size: 2`,
    },
    { modelConfigName: 'gpu' },
  )
  assert.equal(found(await repository.pollOne('a')).config.maxBatchSize, 8)
  assert.equal(found(await repository.pollOne('b')).config.maxBatchSize, 2)
})

test('a missing config.pbtxt is legal only while auto-complete is on', async (context) => {
  const files = { 'm/1/model.onnx': '' }
  const lenient = await repositoryOf(context, files)
  assert.equal(found(await lenient.repository.pollOne('m')).config.backend, 'onnxruntime')
  const strict = await repositoryOf(context, files, { isAutoCompleteDisabled: true })
  const polled = await strict.repository.pollOne('m')
  const path = join(strict.root, 'm', 'config.pbtxt')
  assert.equal(polled?.error?.message, `failed to open text file for read ${path}: No such file or directory`)
  assert.equal(polled?.error?.code, 'INTERNAL')
})

test('a model without a configuration and without a known file cannot be given a backend', async (context) => {
  const { repository } = await repositoryOf(context, { 'm/1/weights.bin': '', 'x.mine/1/weights': '' })
  const polled = await repository.pollOne('m')
  assert.match(polled?.error?.message ?? '', /^Invalid model name: Could not determine backend for model 'm' with no/)
  assert.equal(found(await repository.pollOne('x.mine')).config.backend, 'mine')
})

test('a text that cannot be read is Triton’s one line, with the place in the hints and the log', async (context) => {
  const { repository, root, log } = await repositoryOf(context, {
    'm/1/': '',
    'm/config.pbtxt': 'dynamic_batching {\n  max_batch_size: 8\n}\n',
  })
  const polled = await repository.pollOne('m')
  assert.equal(polled?.error?.message, `failed to read text proto from ${join(root, 'm', 'config.pbtxt')}`)
  assert.deepEqual(polled?.hints, [
    "2:3: unknown field 'max_batch_size' in ModelDynamicBatching; 'max_batch_size' is a field of the model itself: move it out to the top level of the file",
  ])
  assert.deepEqual(
    log.entries.slice(0, 2).map((entry) => entry.message),
    [
      "Error parsing text-format inference.ModelConfig: 2:3: unknown field 'max_batch_size' in ModelDynamicBatching",
      `Poll failed for model directory 'm': failed to read text proto from ${join(root, 'm', 'config.pbtxt')}`,
    ],
  )
})

test('the same model in two repositories is refused, and the hint names both', async (context) => {
  const one = await temporaryRepository({ 'm/1/model.onnx': '', 'n/1/model.onnx': '' })
  const two = await temporaryRepository({ 'm/1/model.onnx': '' })
  context.after(one.remove)
  context.after(two.remove)
  const options = { roots: [one.root, two.root], modelConfigName: '', isAutoCompleteDisabled: false }
  const repository = new ModelRepository({ log: new MemoryLog(), store: new LocalStore() }, options)
  const [m, n] = await repository.poll()
  assert.equal(m?.error?.message, 'model appears in two or more repositories')
  assert.deepEqual(m?.hints, [`'m' is in '${one.root}' and '${two.root}'`])
  assert.equal(found(n).repositoryPath, one.root)
  assert.equal((await repository.pollOne('m'))?.error?.message, 'model appears in two or more repositories')
})

test('a name that is a path, and one that no repository has, are null', async (context) => {
  const { repository } = await repositoryOf(context, { 'm/1/model.onnx': '' })
  for (const name of ['../m', 'm/1', '..', 'm\\1', 'm\0', '', 'nobody']) {
    assert.equal(await repository.pollOne(name), null, name)
  }
})

test('a repository that is not there fails the poll as a whole', async (context) => {
  const { repository } = await repositoryOf(context, {}, { roots: ['/no/such/repository'] })
  await assert.rejects(repository.poll(), {
    code: 'INTERNAL',
    message: /^failed to stat file \/no\/such\/repository\nthere is no such folder/,
  })
})

test('links inside the repository are followed, links out of it refused', async (context) => {
  const { repository, root } = await repositoryOf(context, {
    'kube/..2024/config.pbtxt': `${onnx}max_batch_size: 3`,
    'kube/1/model.onnx': '',
    'shared/1/model.onnx': '',
    'out/config.pbtxt': onnx,
  })
  const other = await temporaryRepository({ 'm/1/model.onnx': '', 'weights.onnx': '' })
  context.after(other.remove)
  await symlink('..2024', join(root, 'kube', '..data'))
  await symlink('..data/config.pbtxt', join(root, 'kube', 'config.pbtxt'))
  await symlink('shared', join(root, 'alias'))
  await symlink(join(other.root, 'm'), join(root, 'escaped'))
  await mkdir(join(root, 'out', '1'))
  await symlink(join(other.root, 'weights.onnx'), join(root, 'out', '1', 'model.onnx'))
  assert.equal(found(await repository.pollOne('kube')).config.maxBatchSize, 3)
  assert.deepEqual(found(await repository.pollOne('alias')).versions, ['1'])
  for (const name of ['escaped', 'out']) {
    const polled = await repository.pollOne(name)
    assert.equal(polled?.error?.code, 'INVALID_ARG')
    assert.match(polled?.error?.message ?? '', /leads out of .*: it is a link to/)
  }
})

test('a repository root that is a link works', async (context) => {
  const { root } = await repositoryOf(context, { 'models/m/1/model.onnx': '' })
  await symlink('models', join(root, 'current'))
  const options = { roots: [join(root, 'current')], modelConfigName: '', isAutoCompleteDisabled: false }
  const repository = new ModelRepository({ log: new MemoryLog(), store: new LocalStore() }, options)
  assert.equal(found(await repository.pollOne('m')).modelDirectory, join(root, 'current', 'm'))
})

test('the fingerprint changes with any file and with nothing else', async (context) => {
  const { repository, root } = await repositoryOf(context, { 'm/config.pbtxt': onnx, 'm/1/model.onnx': 'x' })
  const fingerprint = async (): Promise<string> => found(await repository.pollOne('m')).fingerprint
  const seen = [await fingerprint()]
  assert.equal(await fingerprint(), seen[0])
  const changes: (() => Promise<unknown>)[] = [
    () => writeFile(join(root, 'm', '1', 'model.onnx'), 'xy'),
    () => utimes(join(root, 'm', 'config.pbtxt'), 1, 1),
    () => mkdir(join(root, 'm', '2')),
    () => rename(join(root, 'm', '2'), join(root, 'm', '3')),
    () => rm(join(root, 'm', '1'), { recursive: true }),
  ]
  for (const change of changes) {
    await change()
    const next = await fingerprint()
    assert.ok(!seen.includes(next))
    seen.push(next)
  }
  await mkdir(join(root, 'm', '3', '__pycache__'))
  const cached = await fingerprint()
  await writeFile(join(root, 'm', '3', '__pycache__', 'model.pyc'), '')
  assert.equal(await fingerprint(), cached, 'Python’s cache is not a change of the model')
})

test('an override stands in for the file and is not changed by the poll', async (context) => {
  const { repository } = await repositoryOf(context, { 'm/config.pbtxt': 'rubbish', 'm/1/model.py': '' })
  const override = { ...emptyModelConfig(), maxBatchSize: 5 }
  const model = found(await repository.pollOne('m', override))
  assert.deepEqual([model.config.maxBatchSize, model.config.backend], [5, 'python'])
  assert.equal(override.backend, '')
})

test('polling again says again only what changed; asking for one model always says it', async (context) => {
  const { repository, root, log } = await repositoryOf(context, { 'm/config.pbtxt': 'rubbish', 'm/1/': '' })
  const failures = (): number => log.entries.filter((entry) => entry.message.startsWith('Poll failed')).length
  await repository.poll()
  await repository.poll()
  assert.equal(failures(), 1)
  await repository.pollOne('m')
  assert.equal(failures(), 2)
  await writeFile(join(root, 'm', 'config.pbtxt'), 'max_batch_size: -1\nbackend: "x"')
  await repository.poll()
  assert.equal(failures(), 3)
})

test('what people get wrong about folders is hinted at', async (context) => {
  const { repository } = await repositoryOf(context, {
    'a/config.pbtxt': onnx,
    'a/v1/model.onnx': '',
    'b/1/model.onnx': '',
    'b/1/config.pbtxt': onnx,
    'b/1.1/': '',
    'c/model.onnx': '',
    'c/config.pbtxt': onnx,
    'd/config.pbtxt': 'platform: "ensemble" ensemble_scheduling { step { model_name: "a" } }',
    'd/1/': '',
    'e/config.pbtxt': `${onnx}version_policy { specific { versions: [1, 3] } }`,
    'f/config.pbtxt': `${onnx}version_policy { specific { versions: [${Array.from({ length: 1000 }, (_, i) => i + 1).join()}] } }`,
    'f/1/model.onnx': '',
    'e/1/model.onnx': '',
  })
  const hints = async (name: string): Promise<string> => ((await repository.pollOne(name))?.hints ?? []).join('\n')
  assert.match(
    await hints('a'),
    /^folder 'v1' is not a version and is ignored: .* rename it to '1'\nthere is no version/,
  )
  assert.match(await hints('b'), /folder '1\.1' is not a version/)
  assert.match(await hints('b'), /'1\/config\.pbtxt' is ignored: the configuration belongs beside the version folders/)
  assert.equal(await hints('c'), "there is no version folder: move 'model.onnx' to '1/model.onnx'")
  assert.match(await hints('d'), /step 0 \(a\) needs an input_map and an output_map/)
  assert.equal(await hints('e'), "version 3 is asked for by version_policy, but there is no folder '3'")
  const many = (await hints('f')).split('\n')
  assert.deepEqual([many.length, many.at(-1)], [21, 'there are 979 more remarks like these'])
  assert.match(await hints('d'), /asks for version 0: for the latest version write model_version: -1/)
})

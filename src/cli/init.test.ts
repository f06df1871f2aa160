import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { addSubModel, buildOnnx, floats, identityModel, type OnnxModel } from '../../test/fixtures/onnx/build-onnx.ts'
import { parseModelConfigText } from '../repository/text-format-reader.ts'
import { quotedText } from './init-config-text.ts'
import { nextSteps } from './next-steps.ts'
import { runInit } from './init.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-init-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

async function init(...args: string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  let stdout = ''
  let stderr = ''
  const io = { stdout: (text: string) => void (stdout += text), stderr: (text: string) => void (stderr += text) }
  const status = await runInit(args, io)
  return { status, stdout, stderr }
}

async function written(model: OnnxModel, name = 'source.onnx'): Promise<string> {
  const file = path.join(folder, name)
  await mkdir(path.dirname(file), { recursive: true })
  await writeFile(file, buildOnnx(model))
  return file
}

const repository = (): string => path.join(folder, 'models')
const configOf = async (name: string) =>
  parseModelConfigText(await readFile(path.join(repository(), name, 'config.pbtxt'), 'utf8')).config

test('a model folder is made with the file and a configuration that says what the file says', async () => {
  const file = await written(addSubModel())
  const { status, stdout } = await init(file, '--repository', repository(), '--name=m')
  assert.equal(status, 0)
  assert.match(stdout, /galatea --model-repository/)
  assert.deepEqual(await readFile(path.join(repository(), 'm/1/model.onnx')), await readFile(file))
  const config = await configOf('m')
  assert.deepEqual([config.name, config.backend, config.maxBatchSize], ['m', 'onnxruntime', 4])
  assert.notEqual(config.dynamicBatching, null)
  assert.deepEqual(
    config.input.map(({ name, dataType, dims }) => [name, dataType, dims]),
    [
      ['INPUT0', 'TYPE_INT32', [16]],
      ['INPUT1', 'TYPE_INT32', [16]],
    ],
  )
})

test('a model that is already there is not touched, unless --force says so', async () => {
  const file = await written(addSubModel())
  await init(file, '--repository', repository(), '--name', 'm')
  const config = path.join(repository(), 'm/config.pbtxt')
  await writeFile(config, 'mine')
  const refused = await init(file, '--repository', repository(), '--name', 'm')
  assert.equal(refused.status, 1)
  assert.match(refused.stderr, /is already there.*--force/)
  assert.equal(await readFile(config, 'utf8'), 'mine')
  assert.equal((await init(file, '--repository', repository(), '--name', 'm', '--force')).status, 0)
  assert.equal((await configOf('m')).maxBatchSize, 4)
  // From its own place, too.
  assert.equal(
    (await init(path.join(repository(), 'm/1/model.onnx'), '--repository', repository(), '--force')).status,
    0,
  )
})

test('--max-batch-size is written, and refused for a model that cannot batch', async () => {
  const file = await written(addSubModel())
  await init(file, '--repository', repository(), '--name', 'm', '--max-batch-size', '32')
  assert.equal((await configOf('m')).maxBatchSize, 32)
  const fixed = await written(addSubModel(1), 'fixed.onnx')
  const refused = await init(fixed, '--repository', repository(), '--max-batch-size', '32')
  assert.equal(refused.status, 1)
  assert.match(refused.stderr, /cannot batch: 'INPUT0' has shape \[1, 16\]/)
  assert.equal((await init(fixed, '--repository', repository())).status, 0)
  const config = await configOf('fixed')
  assert.deepEqual([config.maxBatchSize, config.input[0]?.dims, config.dynamicBatching], [0, [1, 16], null])
})

test('weights in external files come along; those outside the folder or missing are refused', async () => {
  const model = (location: string): OnnxModel => ({
    ...identityModel('FP32', [1]),
    initializers: [{ name: 'w', type: 'FP32', dims: [1], external: { location, length: 4 } }],
  })
  await mkdir(path.join(folder, 'parts'))
  await writeFile(path.join(folder, 'parts/w.bin'), floats(1))
  assert.equal((await init(await written(model('parts/w.bin')), '--repository', repository(), '--name', 'm')).status, 0)
  assert.deepEqual(new Uint8Array(await readFile(path.join(repository(), 'm/1/parts/w.bin'))), floats(1))
  const leaving = await init(await written(model('../../etc/passwd'), 'bad.onnx'), '--repository', repository())
  assert.match(leaving.stderr, /outside its own folder/)
  const missing = await init(await written(model('none.bin'), 'bad.onnx'), '--repository', repository())
  assert.match(missing.stderr, /put 'none\.bin' beside/)
  assert.equal(missing.status, 1)
})

test('a model whose files cannot all be written leaves nothing behind', async () => {
  const model: OnnxModel = {
    ...identityModel('FP32', [1]),
    initializers: [{ name: 'w', type: 'FP32', dims: [1], external: { location: 'model.onnx', length: 4 } }],
  }
  await writeFile(path.join(folder, 'model.onnx'), floats(1))
  // The weights take the place that the model has in a repository.
  const failed = await init(await written(model), '--repository', repository(), '--name', 'm')
  assert.deepEqual([failed.status, failed.stdout], [1, ''])
  await assert.rejects(readdir(repository()), { code: 'ENOENT' })
})

test('the name comes from the file, or from the folder of a file called model.onnx', async () => {
  await init(await written(addSubModel(), 'resnet.onnx'), '--repository', repository())
  assert.equal((await configOf('resnet')).name, 'resnet')
  await init(await written(addSubModel(), 'bert/1/model.onnx'), '--repository', repository())
  assert.equal((await configOf('bert')).name, 'bert')
})

test('names with quotes and other letters survive in the configuration', async () => {
  const odd = { ...identityModel('FP32', ['n', 'größe']), metadata: {} }
  const name = 'a "b" \\ ö\n'
  const model = { ...odd, inputs: [{ name, type: 'FP32', shape: [null, 'x\ny'] } as const], nodes: [] }
  await init(await written(model), '--repository', repository(), '--name', 'm')
  assert.equal((await configOf('m')).input[0]?.name, name)
  assert.equal(quotedText('größe "m²" 身長'), '"größe \\"m²\\" 身長"')
  assert.equal(quotedText('a\u202eb\n'), '"a\\342\\200\\256b\\012"')
})

test('scalars, open dimensions and outputs without a shape are written so that the server can load them', async () => {
  const model: OnnxModel = {
    nodes: [],
    inputs: [{ name: 'x', type: 'FP32', shape: ['batch'] }],
    outputs: [{ name: 'y', type: 'FP32', shape: ['batch', 'length'] }],
  }
  await init(await written(model), '--repository', repository(), '--name', 'm')
  const config = await configOf('m')
  assert.deepEqual([config.input[0]?.dims, config.input[0]?.reshape], [[1], { shape: [] }])
  assert.deepEqual(config.output[0]?.dims, [-1])
  await init(
    await written({ ...model, outputs: [{ name: 'y', type: 'FP32', shape: null }] }),
    '--repository',
    repository(),
    '--name',
    'n',
  )
  assert.deepEqual((await configOf('n')).output, [])
})

test('mistakes on the command line are named', async () => {
  const file = await written(addSubModel())
  assert.match((await init('--repository', repository())).stderr, /name the model file/)
  assert.match((await init(file)).stderr, /--repository/)
  assert.match((await init(file, '--repository', repository(), '--name', '../m')).stderr, /path traversal/)
  assert.match((await init(file, '--repository', repository(), '--max-batch-size', 'x')).stderr, /whole number/)
  const code = path.join(path.dirname(file), 'model.py')
  await writeFile(code, '')
  assert.match((await init(code, '--repository', repository())).stderr, /is code.*galatea init --template python/)
  assert.match((await init(file, '--repositry', 'x')).stderr, /did you mean '--repository'/)
  assert.equal((await init('--help')).status, 0)
})

test('the commands that come next can be pasted, whatever the names hold', () => {
  const [check = '', serve = ''] = nextSteps({ repository: "./my models' ä", flags: ['--backend-config=python,interpreter=/a b/python'] }, {}) // prettier-ignore
  assert.equal(
    check,
    String.raw`Check it:  galatea check './my models'\'' ä' '--backend-config=python,interpreter=/a b/python'`,
  )
  assert.ok(serve.startsWith(String.raw`Serve it:  galatea --model-repository './my models'\'' ä'`))
  assert.match(nextSteps({ repository: './models' }, {})[0] ?? '', / \.\/models$/)
})

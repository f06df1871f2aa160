import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { addSubModel, buildOnnx, floats } from '../../test/fixtures/onnx/build-onnx.ts'
import { runInspect } from './inspect.ts'

let folder: string
let file: string
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-inspect-'))
  file = path.join(folder, 'simple.onnx')
  const initializers = [{ name: 'unused', type: 'FP32', dims: [2], raw: floats(1, 2) }] as const
  await writeFile(file, buildOnnx({ ...addSubModel(), initializers, metadata: { task: 'sums' } }))
})
after(() => rm(folder, { recursive: true, force: true }))

async function inspect(...args: string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  let stdout = ''
  let stderr = ''
  const io = { stdout: (text: string) => void (stdout += text), stderr: (text: string) => void (stderr += text) }
  const status = await runInspect(args, io)
  return { status, stdout, stderr }
}

test('the table shows names, types, shapes, operator sets, size and metadata', async () => {
  const { status, stdout } = await inspect(file)
  assert.equal(status, 0)
  for (const expected of [
    /\| INPUT0 +\| INT32 +\| \[batch, 16\] +\|/,
    /\| OUTPUT1 +\| INT32/,
    /operator sets +ai\.onnx 17/,
    /weights +1 tensors, 8 bytes/,
    /nodes +2 \(Add, Sub\)/,
    /\| task +\| sums/,
  ]) {
    assert.match(stdout, expected)
  }
})

test('--json gives the same for programs', async () => {
  const { status, stdout } = await inspect('--json', file)
  assert.equal(status, 0)
  const model = JSON.parse(stdout) as { inputs: unknown[]; metadata: unknown; operators: unknown }
  assert.deepEqual(model.inputs[0], { name: 'INPUT0', dataType: 'INT32', typeText: 'INT32', shape: ['batch', 16] })
  assert.deepEqual(model.metadata, { task: 'sums' })
  assert.deepEqual(model.operators, { Add: 1, Sub: 1 })
})

test('a file that is no model, or not there, is status 1 with the reason', async () => {
  const bad = path.join(folder, 'bad.onnx')
  await writeFile(bad, 'hello')
  assert.match((await inspect(bad)).stderr, /bad\.onnx' is not a readable ONNX file/)
  const missing = await inspect(path.join(folder, 'none.onnx'))
  assert.equal(missing.status, 1)
  assert.match(missing.stderr, /none\.onnx/)
})

test('names that would steer the terminal are shown harmless', async () => {
  const evil = path.join(folder, 'evil.onnx')
  const [input] = addSubModel().inputs
  assert.ok(input)
  await writeFile(evil, buildOnnx({ ...addSubModel(), inputs: [{ ...input, name: '\u001b[2Jgone\u009b' }] }))
  const { stdout } = await inspect(evil)
  assert.ok(!stdout.includes('\u001b') && !stdout.includes('\u009b'))
  assert.match(stdout, /\\x1b\[2Jgone/)
})

test('mistakes on the command line are named, with the nearest option', async () => {
  assert.match((await inspect()).stderr, /name the model file/)
  assert.match((await inspect(file, '--jsn')).stderr, /no option '--jsn'; did you mean '--json'/)
  assert.match((await inspect(file, file)).stderr, /one model file at a time/)
  assert.equal((await inspect('--help')).status, 0)
})

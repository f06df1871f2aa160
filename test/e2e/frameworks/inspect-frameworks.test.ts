// `galatea inspect` and `galatea init` with files of frameworks: what they say when a file does not tell, or nobody can read it.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test, { after } from 'node:test'
import { promisify } from 'node:util'
import { runInit } from '../../../src/cli/init.ts'
import { runInspect } from '../../../src/cli/inspect.ts'
import { requireTool } from '../../tool.ts'

const folder = await mkdtemp(path.join(tmpdir(), 'galatea-inspect-'))
after(() => rm(folder, { recursive: true }))
const pytorch = await requireTool('python-pytorch')
const sklearn = await requireTool('python-sklearn')

async function run(command: typeof runInspect, ...args: string[]): Promise<{ status: number; text: string }> {
  let text = ''
  const write = (part: string): void => void (text += part)
  return { status: await command(args, { stdout: write, stderr: write }), text }
}

test('TorchScript does not tell: inspect prints a configuration to begin with, init writes it', async () => {
  const file = path.join(folder, 'net.pt')
  const program = 'import sys, torch; torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), sys.argv[1])'
  await promisify(execFile)(pytorch, ['-c', program, file])
  const inspected = await run(runInspect, file, '--python', pytorch)
  assert.equal(inspected.status, 1)
  assert.match(inspected.text, /TorchScript does not say .*input \{ name: "input" data_type: TYPE_FP32/s)
  const made = await run(runInit, file, '--repository', folder, '--name', 'net', '--python', pytorch)
  assert.equal(made.status, 0, made.text)
  assert.match(made.text, /does not tell its types and dims/)
  assert.match(await readFile(path.join(folder, 'net/config.pbtxt'), 'utf8'), /guesses.*backend: "pytorch"/s)
  assert.deepEqual(await readFile(path.join(folder, 'net/1/model.pt')), await readFile(file))
})

test('a missing framework is named with the command that installs it, and so is a missing Python', async () => {
  const file = path.join(folder, 'forest.txt')
  await writeFile(file, 'tree\n')
  const { text } = await run(runInspect, file, '--python', pytorch)
  assert.match(
    text,
    /LightGBM is not installed for .*' *.* -m pip install lightgbm'.*--python PROGRAM.*virtual environment/,
  )
  assert.match((await run(runInspect, file, '--python=/no/such/python')).text, /cannot be started .*--python/)
})

test('a pickle is read only where that is allowed; what is no model is refused with its name', async () => {
  const file = path.join(folder, 'model.pkl')
  await writeFile(file, 'not a pickle')
  assert.match(
    (await run(runInspect, file, '--python', sklearn)).text,
    /runs any code that is in it\. Run 'galatea inspect' with --allow-pickle-models if you trust/,
  )
  const { status, text } = await run(runInspect, file, '--python', sklearn, '--allow-pickle-models')
  assert.equal(status, 1)
  assert.match(text, /model\.pkl' cannot be read/)
  const notes = path.join(folder, 'notes.doc')
  assert.match((await run(runInspect, notes)).text, /there is no file or folder/)
  await writeFile(notes, 'no model')
  assert.match((await run(runInspect, notes)).text, /is of no known format/)
})

// examples/resnet50, small: one network exported three times, served by two backends.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { promisify } from 'node:util'
import { requireTool } from '../tool.ts'
import { projectRoot, startServerProcess } from './server-process.ts'

const run = promisify(execFile)
const example = path.join(projectRoot, 'examples/resnet50')

test('a network exported to TorchScript, an exported program and ONNX answers the same from all three', async () => {
  const python = await requireTool('python-pytorch')
  const models = await mkdtemp(path.join(tmpdir(), 'galatea-resnet50-'))
  try {
    await run(python, [path.join(example, 'export.py'), '--width', '8', '--size', '64', '--to', models])
    await using server = await startServerProcess([
      `--model-repository=${models}`,
      `--backend-config=pytorch,interpreter=${python}`,
    ])
    const { stdout } = await run(process.execPath, [path.join(example, 'compare.ts'), server.address, models])
    const lines = stdout.trim().split('\n')
    assert.equal(lines.length, 3)
    for (const line of lines) assert.match(line, /^resnet50_\w+ +[\d.]+ images\/s, differs by [\d.]+e[-+]\d+$/)
  } finally {
    await rm(models, { recursive: true })
  }
})

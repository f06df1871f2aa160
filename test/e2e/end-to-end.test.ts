// examples/end-to-end: the one script from training to dashboards.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { requireTool } from '../tool.ts'
import { sitePackages } from './pictures/photographs.ts'
import { projectRoot } from './server-process.ts'

const sklearn = await requireTool('python-sklearn')
const further = [await requireTool('python-onnxruntime'), await requireTool('example-models')].map(sitePackages)

test('end to end: one script trains, exports three times, checks, loads, measures and tunes', async (context) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-end-to-end-'))
  context.after(() => rm(folder, { recursive: true, force: true }))
  const python = path.join(folder, 'python')
  await writeFile(python, `#!/bin/sh\nPYTHONPATH="${further.join(':')}" exec "${sklearn}" "$@"\n`, { mode: 0o755 })
  const script = path.join(projectRoot, 'examples/end-to-end/run.ts')
  const { stdout: told } = await promisify(execFile)(process.execPath, [script, folder, python])
  assert.match(told, /^0 errors, 0 warnings in 3 models/m)
  const rows = [...told.matchAll(/^(\w+) +(\d+) +([\d.]+) % +(\d+)$/gm)]
  assert.deepEqual(
    rows.map(([, kind]) => kind),
    ['fp32', 'fp16', 'int8'],
  )
  const [fp32 = [], fp16 = [], int8 = []] = rows.map(([, , ...numbers]) => numbers.map(Number))
  const [size = 0, right = 0] = fp32
  for (const [smaller, [bytes = 0, alsoRight = 0]] of [
    [0.55, fp16],
    [0.3, int8],
  ] as const) {
    assert.ok(bytes < smaller * size, told)
    assert.ok(alsoRight > right - 1, told)
  }
  assert.ok(right > 95, told)
  for (const kind of ['fp32', 'fp16', 'int8']) {
    assert.match(told, new RegExp(`^nv_inference_count of ${kind}: [1-9]\\d+$`, 'm'))
    assert.match(await readFile(path.join(folder, `${kind}.html`), 'utf8'), /<svg/)
  }
  assert.match(told, /^Best: /m)
  assert.match(await readFile(path.join(folder, 'tune.html'), 'utf8'), /<svg/)
  assert.match(told, /^console: 200/m)
})

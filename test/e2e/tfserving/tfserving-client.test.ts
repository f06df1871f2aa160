// tensorflow-serving-api from PyPI, unmodified, against a real server: all RPCs.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { requireTool } from '../../tool.ts'
import { startServerProcess } from '../server-process.ts'
import { createTfservingModels } from './tfserving-repository.ts'

const python = await requireTool('python-tensorflow')
const client = await requireTool('tfserving-client')
const [packages = ''] = globSync(path.join(client, '../../lib/python*/site-packages'))

test('every RPC, every encoding of tensors and what is refused', async () => {
  await using models = await createTfservingModels()
  await using server = await startServerProcess([
    `--model-repository=${models.repository}`,
    '--allow-tfserving',
    '--tfserving-port=0',
    '--allow-tfserving-reload',
  ])
  const script = path.join(import.meta.dirname, 'check_client.py')
  const { stdout } = await promisify(execFile)(python, [script, server.grpcAddress, path.dirname(models.versioned)], {
    env: { ...process.env, PYTHONPATH: packages },
  })
  assert.match(stdout, /all is well/)
})

test('a SavedModel in its folder of versions serves as it is, with batching', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-saved-'))
  await promisify(execFile)(python, [path.join(import.meta.dirname, 'make_half_plus_two.py'), folder])
  await writeFile(path.join(folder, 'batching'), 'max_batch_size { value: 8 }')
  await using server = await startServerProcess([
    '--allow-tfserving',
    '--tfserving-port=0',
    `--tfserving-model=half_plus_two=${folder}`,
    '--tfserving-batching',
    `--tfserving-batching-file=${folder}/batching`,
    `--backend-config=tensorflow,interpreter=${python}`,
  ])
  const url = `http://${server.furtherAddress('TensorFlow Serving REST service')}/v1/models/half_plus_two`
  const predict = async (instances: string): Promise<string> =>
    (await fetch(`${url}:predict`, { method: 'POST', body: `{"instances": ${instances}}` })).text()
  assert.equal(await predict('[[1.0], [2.0], [5.0]]'), '{\n    "predictions": [[2.5], [3.0], [4.5]\n    ]\n}')
  assert.equal(await predict('[1.0, 2.0, 5.0]'), '{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}')
  assert.match(await (await fetch(url)).text(), /"version": "123"/)
  await rm(folder, { recursive: true })
})

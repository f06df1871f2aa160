// tensorflow-serving-api from PyPI, unmodified, against a real server: all RPCs.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
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

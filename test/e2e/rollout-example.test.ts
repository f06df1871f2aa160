// examples/rollout: the good version of the digit classifier takes over, the bad one never answers anybody.

import assert from 'node:assert/strict'
import { copyFile, cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { reached } from './rollout-repository.ts'
import { exampleModels, projectRoot, startServerProcess } from './server-process.ts'

const example = path.join(projectRoot, 'examples/rollout')

test('the good version takes over; the bad one is found by its answers, and nobody got one of them', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-example-'))
  const models = path.join(folder, 'models')
  await cp(path.join(exampleModels, 'digits'), path.join(models, 'digits'), { recursive: true })
  await copyFile(path.join(example, 'rollout.yaml'), path.join(models, 'digits/rollout.yaml'))
  const server = await startServerProcess([
    `--model-repository=${models}`,
    `--state-dir=${folder}/state`,
    '--model-control-mode=poll',
    '--repository-poll-secs=1',
  ])
  const lines = (await readFile(path.join(models, 'digits/held-out.csv'), 'utf8')).trim().split('\n').slice(1)
  const images = lines.map((line) => line.split(',').map(Number).slice(-64))
  const versions = new Set<string>()
  const stop = new AbortController()
  const sending = (async () => {
    for (let i = 0; !stop.signal.aborted; i++) {
      const inputs = [{ name: 'pixels', datatype: 'FP32', shape: [1, 64], data: images[i % images.length] }]
      const body = JSON.stringify({ inputs })
      const answer = await fetch(`${server.url}/v2/models/digits/infer`, { method: 'POST', body })
      assert.equal(answer.status, 200)
      versions.add(((await answer.json()) as { model_version: string }).model_version)
    }
  })()
  try {
    await cp(path.join(example, 'versions/good'), path.join(models, 'digits/2'), { recursive: true })
    await reached(server, 'SUCCEEDED')
    await cp(path.join(example, 'versions/bad'), path.join(models, 'digits/3'), { recursive: true })
    const back = await reached(server, 'ROLLED_BACK')
    assert.match(back.reason, /agreement is worse/)
    stop.abort()
    await sending
    assert.deepEqual([...versions].sort(), ['1', '2'])
  } finally {
    stop.abort()
    await sending
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

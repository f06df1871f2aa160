// Rollouts with a real server: new versions take over by themselves, or go back by themselves, and no client sees an error.

import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { call, reached, RolloutRepository } from './rollout-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const state = await mkdtemp(path.join(tmpdir(), 'galatea-state-'))
after(() => rm(state, { recursive: true, force: true }))
let folderCount = 0

/** Judged quickly: a test has seconds. */
const quickly = `
kind: rollout
steps:
  - { weight: 30, for: 1s, min_requests: 20 }
  - { weight: 100, for: 1s, min_requests: 20 }
judge: { metrics: { errors: {} } }
keep_stable: 1s
drain: 2s
`

type Client = { readonly answers: number[]; readonly failures: string[]; stop(): Promise<void> }

/** Sends requests one after the other in a few lanes until it is stopped. */
function clientOf(server: ServerProcess, lanes = 4): Client {
  const client = { answers: [] as number[], failures: [] as string[], isStopped: false }
  const body = JSON.stringify({ inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [0] }] })
  const lane = async (): Promise<void> => {
    while (!client.isStopped) {
      const answer = await fetch(`${server.url}/v2/models/m/infer`, { method: 'POST', body })
      const text = await answer.text()
      if (answer.ok) client.answers.push((JSON.parse(text) as { outputs: [{ data: [number] }] }).outputs[0].data[0])
      else client.failures.push(text)
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }
  const running = Array.from({ length: lanes }, lane)
  return {
    ...client,
    stop: async () => {
      client.isStopped = true
      await Promise.all(running)
    },
  }
}

async function serverOf(repository: RolloutRepository, ...flags: string[]): Promise<ServerProcess> {
  const stateFolder = path.join(state, String(++folderCount))
  return startServerProcess([`--model-repository=${repository.root}`, `--state-dir=${stateFolder}`, '--model-control-mode=poll', '--repository-poll-secs=1', ...flags]) // prettier-ignore
}

describe('a new version in the folder of a model with a rollout file', () => {
  test('a good one gets more and more requests and becomes the default version', async () => {
    const repository = await RolloutRepository.make()
    await repository.write('rollout.yaml', quickly)
    await repository.addVersion(1, { number: 1 })
    await using server = await serverOf(repository)
    const client = clientOf(server)
    await repository.addVersion(2, { number: 2 })
    const done = await reached(server, 'SUCCEEDED')
    await client.stop()
    assert.deepEqual(client.failures, [])
    assert.equal(client.answers.at(-1), 2)
    assert.equal(done.candidate, '2')
    assert.deepEqual([...new Set(done.history.map((entry) => entry.state))], ['PENDING', 'RUNNING', 'PROMOTING', 'SUCCEEDED']) // prettier-ignore
    await repository.remove()
  })

  test('one that fails goes back by itself, is held, and no client sees an error', async () => {
    const repository = await RolloutRepository.make()
    await repository.write('rollout.yaml', quickly.replace('for: 1s', 'for: 60s'))
    await repository.addVersion(1, { number: 1 })
    await using server = await serverOf(repository)
    const client = clientOf(server)
    await repository.addVersion(2, { number: 2, body: "throw new Error('broken')" })
    const back = await reached(server, 'ROLLED_BACK')
    await client.stop()
    assert.deepEqual(client.failures, [])
    assert.equal(client.answers.at(-1), 1)
    assert.match(back.reason, /errors is worse/)
    const again = await call<{ error: string }>(server, '/v2/rollouts', { model: 'm' })
    assert.equal(again.status, 409)
    assert.match(again.body.error, /version 2 of model 'm' is held since the rollout 'm-2'/)
    await repository.remove()
  })
})

// Rollouts under the load of tritonclient, over HTTP, gRPC and a gRPC stream: the candidate fails, dies, hangs or is withdrawn,
// and no client sees an error.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { after, describe, test } from 'node:test'
import { until } from '../until.ts'
import { testPython } from './python-checks.ts'
import { call, reached, RolloutRepository, type Behaviour } from './rollout-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const state = await mkdtemp(path.join(tmpdir(), 'galatea-clients-'))
after(() => rm(state, { recursive: true, force: true }))
let folderCount = 0

type Seen = {
  readonly answers: Readonly<Record<string, Readonly<Record<string, number>>>>
  readonly failures: readonly string[]
}

/** Runs `body` while tritonclient asks model `m`, whose version 2 is the candidate. */
async function underLoad(
  file: string,
  candidate: Behaviour,
  body: (server: ServerProcess) => Promise<void>,
): Promise<Seen> {
  const repository = await RolloutRepository.make()
  await repository.write('rollout.yaml', file)
  await repository.addVersion(1, { number: 1 })
  const server = await startServerProcess([
    `--model-repository=${repository.root}`,
    `--state-dir=${path.join(state, String(++folderCount))}`,
    '--model-control-mode=poll',
    '--repository-poll-secs=1',
  ])
  const script = path.join(import.meta.dirname, 'client/rollout-load.py')
  const load = spawn(testPython(), [script, server.address, server.grpcAddress], { stdio: ['pipe', 'pipe', 'inherit'] })
  try {
    await once(load.stdout, 'data')
    await repository.addVersion(2, candidate)
    await body(server)
    load.stdin.end()
    return JSON.parse(await text(load.stdout)) as Seen
  } finally {
    load.kill()
    await server.stop()
    await repository.remove()
  }
}

const ways = ['grpc', 'http', 'stream']

/** Every way had answers of `versions`, and no way had a failure. */
function assertUnharmed({ answers, failures }: Seen, versions: readonly string[]): void {
  assert.deepEqual(failures, [])
  assert.deepEqual(Object.keys(answers).toSorted(), ways)
  for (const way of ways) assert.deepEqual(Object.keys(answers[way] ?? {}).toSorted(), versions, way)
}

const judged = `
kind: rollout
steps: [{ weight: 30, for: 60s }]
judge: { metrics: { errors: {} } }
drain: 2s
`

describe('tritonclient sees no error', { concurrency: 2 }, () => {
  test('while a candidate fails half of its requests, and is withdrawn', async () => {
    const body = "if (Math.random() < 0.5) throw new Error('broken')"
    const seen = await underLoad(judged, { number: 2, body }, async (server) => {
      const back = await reached(server, 'ROLLED_BACK')
      assert.match(back.reason, /errors is worse/)
    })
    assertUnharmed(seen, ['1', '2'])
  })

  test('while a candidate takes its worker down again and again', async () => {
    const body = 'if (Math.random() < 0.2) process.exit(3)'
    const file = judged.replace('errors: {}', 'errors: {}, executions: {}')
    const seen = await underLoad(file, { number: 2, body }, async (server) => {
      await reached(server, 'ROLLED_BACK')
    })
    assert.deepEqual(seen.failures, [])
  })

  test('when a candidate with a long queue is withdrawn by hand', async () => {
    const file = judged.replace('weight: 30', 'weight: 90')
    const body = 'await new Promise((resolve) => setTimeout(resolve, 40))'
    const seen = await underLoad(file, { number: 2, body }, async (server) => {
      const { name } = await reached(server, 'RUNNING')
      await until(
        async () => (await metric(server, 'arm="candidate",model="m",outcome="success"')) > 20,
        'requests of the candidate',
      )
      await call(server, `/v2/rollouts/${name}/rollback`, { reason: 'a test' })
      await reached(server, 'ROLLED_BACK')
    })
    assertUnharmed(seen, ['1', '2'])
  })

  test('nor waits for a shadow that takes five seconds: copies are dropped and counted', async () => {
    const file = 'kind: rollout\nsteps: [{ shadow: 100, for: 60s }, { weight: 1, for: 60s }]\n'
    const body = 'await new Promise((resolve) => setTimeout(resolve, 5000))'
    const seen = await underLoad(file, { number: 2, body }, async (server) => {
      await reached(server, 'RUNNING')
      await until(async () => (await metric(server, 'reason="in_flight"')) > 200, 'dropped copies')
    })
    assertUnharmed(seen, ['1'])
    const answered = Object.values(seen.answers).reduce((sum, { '1': count = 0 }) => sum + count, 0)
    assert.ok(answered > 200, String(answered))
  })
})

/** The sum of the samples with these labels. */
async function metric(server: ServerProcess, labels: string): Promise<number> {
  const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  const samples = page.split('\n').filter((line) => line.includes(labels))
  return samples.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

// Three servers share their rollouts through one Redis: they move together, and while Redis is away they stay where they are.

import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'
import { clientOf } from './rollout-client.ts'
import { call, reached, RolloutRepository, rolloutsOf } from './rollout-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const redisServer = await requireTool('redis-server')
const folder = await mkdtemp(path.join(tmpdir(), 'galatea-rollout-redis-'))
const port = await freePort()
let redis: ChildProcess | null = null

after(async () => {
  await stopRedis()
  await rm(folder, { recursive: true, force: true })
})

async function startRedis(): Promise<void> {
  const settings = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--appendonly', 'yes']
  redis = spawn(redisServer, settings, { stdio: 'ignore' })
  await until(async () => {
    const socket = connect(port, '127.0.0.1')
    const isOpen = await Promise.race([once(socket, 'connect').then(() => true), once(socket, 'error').then(() => false)]).catch(() => false) // prettier-ignore
    socket.destroy()
    return isOpen
  }, 'Redis')
}

async function stopRedis(): Promise<void> {
  if (redis === null) return
  const ended = once(redis, 'exit')
  redis.kill('SIGKILL')
  redis = null
  await ended
}

const file = `
kind: rollout
steps: [{ weight: 40, for: 2s, min_requests: 30 }, { weight: 100, for: 1s, min_requests: 30 }]
judge: { metrics: { errors: {} } }
drain: 2s
`

test('three servers bring a version in together, stay where they are without Redis, and one of them takes it back for all', async () => {
  await startRedis()
  const repository = await RolloutRepository.make()
  await repository.write('rollout.yaml', file)
  await repository.addVersion(1, { number: 1 })
  const servers: ServerProcess[] = await Promise.all(
    ['a', 'b', 'c'].map((name) =>
      startServerProcess([
        `--model-repository=${repository.root}`,
        `--state-dir=${path.join(folder, name)}`,
        '--model-control-mode=poll',
        '--repository-poll-secs=1',
        `--rollout-store=redis://127.0.0.1:${port}`,
      ]),
    ),
  )
  const clients = servers.map((server) => clientOf(server, 2))
  try {
    await repository.addVersion(2, { number: 2 })
    const all = await Promise.all(servers.map((server) => reached(server, 'SUCCEEDED')))
    assert.deepEqual([...new Set(all.map(({ name }) => name))], ['m-2'])
    await until(() => clients.every(({ answers }) => answers.at(-1) === 2), 'every server to answer with version 2')

    await repository.write('rollout.yaml', file.replace('for: 2s', 'for: 60s'))
    await repository.addVersion(3, { number: 3 })
    await Promise.all(servers.map((server) => reached(server, 'RUNNING')))
    await stopRedis()
    const paused = await Promise.all(servers.map((server) => reached(server, 'PAUSED')))
    assert.deepEqual([...new Set(paused.map((rollout) => rollout.pause_reason))], ['store'])
    assert.equal((await call(servers[0] as ServerProcess, '/v2/rollouts/m-3/advance', {})).status, 409)
    await call(servers[0] as ServerProcess, '/v2/rollouts/m-3/rollback', { reason: 'by hand' })
    await reached(servers[0] as ServerProcess, 'ROLLED_BACK')
    assert.equal((await rolloutsOf(servers[1] as ServerProcess))[0]?.state, 'PAUSED')
    await startRedis()
    const back = await Promise.all(servers.map((server) => reached(server, 'ROLLED_BACK')))
    assert.deepEqual([...new Set(back.map(({ reason }) => reason))], ['by hand'])
    await until(() => clients.every(({ answers }) => answers.at(-1) === 2), 'every server to answer with version 2')
    await Promise.all(clients.map((client) => client.stop()))
    assert.deepEqual(clients.flatMap(({ failures }) => failures), []) // prettier-ignore
  } finally {
    await Promise.all(clients.map((client) => client.stop()))
    await Promise.all(servers.map((server) => server.stop()))
    await repository.remove()
  }
})

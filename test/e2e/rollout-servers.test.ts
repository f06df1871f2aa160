// Three servers share their rollouts through one Redis: they move together, and while Redis is away they stay where they are.

import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { createClient } from '@redis/client'
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

type Experiment = {
  readonly name: string
  readonly state: string
  readonly goals: readonly { readonly arms: readonly { readonly arm: string; readonly values: number }[] }[]
}

/** An experiment that one server began runs on all, and each of them knows the values of all. */
async function experimentTogether(servers: readonly ServerProcess[]): Promise<void> {
  const arms = [{ name: 'a', version: 2, weight: 50 }, { name: 'b', version: 1, weight: 50 }] // prettier-ignore
  const posted = { kind: 'experiment', model: 'm', name: 'e1', arms, goals: ['score:click'], key: ['header:x-user'] }
  assert.equal((await call(servers[0] as ServerProcess, '/v2/rollouts', posted)).status, 201)
  const shown = async (server: ServerProcess): Promise<Experiment> =>
    (await call<Experiment>(server, '/v2/rollouts/e1')).body
  const all = (state: string): Promise<unknown> =>
    until(
      async () => (await Promise.all(servers.map(shown))).every((one) => one.state === state),
      `an experiment that is ${state} everywhere`,
    )
  await all('RUNNING')
  const body = JSON.stringify({ inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [0] }] })
  for (const [i, server] of servers.entries()) {
    const feedback: object[] = []
    for (let user = 0; user < 10; user++) {
      const headers = { 'x-user': `u${user}-${i}` }
      const answer = await fetch(`${server.url}/v2/models/m/infer`, { method: 'POST', body, headers })
      await answer.text()
      feedback.push({ id: answer.headers.get('galatea-request-id'), score: user, name: 'click' })
    }
    // Half of the feedback comes to a server that did not answer these requests.
    const other = servers[(i + 1) % servers.length] as ServerProcess
    const give = (to: ServerProcess, some: object[]) =>
      call<{ accepted: number; forwarded: number }>(to, '/v2/models/m/feedback', { feedback: some })
    assert.equal((await give(server, feedback.slice(0, 5))).body.accepted, 5)
    assert.equal((await give(other, feedback.slice(5))).body.forwarded, 5)
  }
  const values = async (server: ServerProcess): Promise<number> =>
    (await shown(server)).goals[0]?.arms.reduce((sum, { values }) => sum + values, 0) ?? 0
  let seen: unknown = null
  for (const server of servers)
    await until(
      async () => {
        seen = (await shown(server)).goals
        return (await values(server)) === 30
      },
      'the values of all servers',
      { seen: () => JSON.stringify(seen) },
    )
  await call(servers[1] as ServerProcess, '/v2/rollouts/e1/pause', {})
  await all('PAUSED')
  await call(servers[2] as ServerProcess, '/v2/rollouts/e1/promote', { arm: 'b' })
  await all('ENDED')
  for (const server of servers) {
    const version = async (): Promise<string> =>
      (await call<{ stable: string }>(server, '/v2/models/m/labels')).body.stable
    await until(async () => (await version()) === '1', 'the winner to be the default version')
  }
}

type Fleet = {
  readonly servers: readonly { readonly url: string; readonly this: boolean; readonly state: string }[]
  readonly models: readonly { readonly name: string; readonly differs: boolean }[]
}

/** Each server knows the others; at most 256 servers are kept, and the one that was heard last stays. */
async function knownToEachOther(servers: readonly ServerProcess[]): Promise<void> {
  const fleetOf = async (server: ServerProcess): Promise<Fleet> => (await call<Fleet>(server, '/v2/fleet')).body
  const urls = servers.map(({ url }) => url).sort()
  for (const server of servers) {
    const isSo = async (): Promise<boolean> => {
      const { servers: known } = await fleetOf(server)
      assert.deepEqual([known[0]?.url, known[0]?.this], [server.url, true])
      return isDeepStrictEqual(known.map(({ url, state }) => `${url} ${state}`).sort(), urls.map((url) => `${url} ready`)) // prettier-ignore
    }
    await until(isSo, 'three servers that know each other')
  }
  const client = await createClient({ url: `redis://127.0.0.1:${port}` }).connect()
  try {
    const strangers = Array.from({ length: 300 }, (_, i) => ({ score: 2e9, value: `http://stranger-${i}` }))
    await client.zAdd('galatea:servers:seen', strangers)
    await client.hSet('galatea:servers:said', { 'http://stranger-0': 'no JSON', 'http://stranger-1': '{}' })
    const [first] = servers as [ServerProcess]
    await until(async () => (await client.zCard('galatea:servers:seen')) <= 256, 'at most 256 servers')
    assert.ok((await fleetOf(first)).servers.length <= 257)
    await client.del(['galatea:servers:seen', 'galatea:servers:said'])
  } finally {
    await client.close()
  }
}

/** A label and a default version of one server are those of all, also of a server that comes later, and where the model comes later. */
async function pinnedTogether(
  servers: readonly ServerProcess[],
  start: (name: string, root?: string) => Promise<ServerProcess>,
  root: string,
): Promise<void> {
  await call(servers[0] as ServerProcess, '/v2/models/m/labels', { champion: 2 })
  const labels = { champion: '2', stable: '1' }
  const empty = path.join(folder, 'models')
  await mkdir(empty)
  const [fourth, fifth] = [await start('d'), await start('e', empty)]
  try {
    await cp(path.join(root, 'm'), path.join(folder, 'm'), { recursive: true })
    await rename(path.join(folder, 'm'), path.join(empty, 'm'))
    for (const server of [...servers, fourth, fifth]) {
      const isSo = async (): Promise<boolean> =>
        isDeepStrictEqual((await call(server, '/v2/models/m/labels')).body, labels)
      await until(isSo, 'the label and the default version of all')
    }
  } finally {
    await Promise.all([fourth.stop(), fifth.stop()])
  }
}

test('three servers bring a version in together, stay where they are without Redis, and one of them takes it back for all', async () => {
  await startRedis()
  const repository = await RolloutRepository.make()
  await repository.write('rollout.yaml', file)
  await repository.addVersion(1, { number: 1 })
  const start = (name: string, root = repository.root): Promise<ServerProcess> =>
    startServerProcess([
      `--model-repository=${root}`,
      `--state-dir=${path.join(folder, name)}`,
      '--model-control-mode=poll',
      '--repository-poll-secs=1',
      `--rollout-store=redis://127.0.0.1:${port}`,
    ])
  const servers = await Promise.all(['a', 'b', 'c'].map((name) => start(name)))
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
    await knownToEachOther(servers)
    await experimentTogether(servers)
    await pinnedTogether(servers, start, repository.root)
  } finally {
    await Promise.all(clients.map((client) => client.stop()))
    await Promise.all(servers.map((server) => server.stop()))
    await repository.remove()
  }
})

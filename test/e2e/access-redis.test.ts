// Three servers that share the limits of a tenant through one real Redis, and what they do while Redis is away. How close the leases
// come to the limit does not depend on this machine: `shared-limit.test.ts` holds them to it in virtual time.

import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { createClient } from '@redis/client'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'
import { accessFolder, inferBody } from './access-fixture.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const redisServer = await requireTool('redis-server')
const perSecond = 20
const burst = 8
const loopsPerServer = 3

test('three servers on one Redis never pass more than the limit of a tenant allows', async (t) => {
  const port = await freePort()
  const data = await mkdtemp(path.join(tmpdir(), 'galatea-redis-'))
  t.after(() => rm(data, { recursive: true, force: true }))
  const startRedis = (): ChildProcess =>
    spawn(redisServer, ['--port', String(port), '--bind', '127.0.0.1', '--dir', data, '--save', ''], {
      stdio: 'ignore',
    })
  let redis = startRedis()
  t.after(() => redis.kill('SIGKILL'))
  const folder = await accessFolder(
    `
keys: keys.json
roles: { caller: { allow: [inference] } }
tenants:
  web: { limits: [{ requests: ${perSecond}/s, burst: ${burst} }] }
  short: { limits: [{ requests: 3/24h, exact: true }] }
  strict: { limits: [{ requests: 7/24h, exact: true }] }
store: redis://127.0.0.1:${port}/2
`,
    ['m'],
  )
  t.after(() => folder.remove())
  const key = await folder.key('web-1', '--role', 'caller', '--tenant', 'web')
  const strict = await folder.key('strict', '--role', 'caller', '--tenant', 'strict')
  const short = await folder.key('short', '--role', 'caller', '--tenant', 'short')
  const servers = await Promise.all([1, 2, 3].map(() => startServerProcess(folder.flags)))
  t.after(() => Promise.all(servers.map((server) => server.stop())))
  await Promise.all(servers.map((server) => server.said('limits are shared through Redis')))
  const ask = async ({ url }: ServerProcess, by = key): Promise<number> => {
    const headers = { 'x-api-key': by }
    const answer = await fetch(`${url}/v2/models/m/infer`, { method: 'POST', body: inferBody(), headers })
    await answer.arrayBuffer()
    return answer.status
  }
  const drive = async (isEnough: (passed: number, refused: number) => boolean): Promise<number> => {
    let [passed, refused] = [0, 0]
    const loop = async (server: ServerProcess): Promise<void> => {
      while (!isEnough(passed, refused)) {
        const status = await ask(server)
        if (status === 200) passed++
        else if (status === 429) refused++
        else assert.fail(String(status))
      }
    }
    await Promise.all(servers.flatMap((server) => Array.from({ length: loopsPerServer }, () => loop(server))))
    return passed
  }
  const client = createClient({ url: `redis://127.0.0.1:${port}` })
  client.on('error', () => undefined)
  await client.connect()
  t.after(() => client.destroy())
  const redisSecs = async (): Promise<number> => {
    const [secs = '', micros = ''] = (await client.sendCommand(['TIME'])) as unknown as string[]
    return Number(secs) + Number(micros) / 1e6
  }
  const start = await redisSecs()
  const passed = await drive((good, refused) => good >= 60 && refused >= 60)
  const most = burst + perSecond * ((await redisSecs()) - start)
  assert.ok(passed <= most, `${passed} of ${most}`)

  const exact = await Promise.all(servers.flatMap((server) => Array.from({ length: 6 }, () => ask(server, strict))))
  assert.deepEqual([exact.filter((status) => status === 200).length, exact.filter((status) => status === 429).length], [7, 11]) // prettier-ignore

  const [first] = servers as [ServerProcess]
  const passes = async (): Promise<boolean> => (await ask(first)) === 200
  const saidTimes = (text: string): number => first.output.split(text).length - 1
  redis.kill('SIGKILL')
  await once(redis, 'exit')
  await first.said('is away, each server counts for itself')
  await until(passes, 'the server to count for itself')
  await drive((good) => good >= 20)
  assert.equal(saidTimes('is away'), 1)
  redis = startRedis()
  await until(() => saidTimes('limits are shared through Redis') > 1, 'Redis to be back')
  await until(passes, 'the servers to share the limit again')

  redis.kill('SIGSTOP')
  await until(async () => {
    await ask(first)
    return saidTimes('is away') === 2
  }, 'Redis that does not answer to be taken for away')
  await until(passes, 'the server to count for itself')
  redis.kill('SIGCONT')
  await until(async () => {
    await ask(first)
    return saidTimes('limits are shared through Redis') > 2
  }, 'Redis to answer again')

  // A replica answers, and takes no counts: the server counts for itself then, too.
  await client.sendCommand(['REPLICAOF', '127.0.0.1', '1'])
  const alone: number[] = []
  for (let i = 0; i < 6; i++) alone.push(await ask(first, short))
  assert.deepEqual(alone, [200, 200, 200, 429, 429, 429])
  assert.equal(saidTimes('is away, each server counts for itself: READONLY'), 1)
})

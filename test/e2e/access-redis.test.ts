// Three servers that share the limits of a tenant through one real Redis, and what they do while Redis is away.

import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'
import { accessFolder, inferBody } from './access-fixture.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const redisServer = await requireTool('redis-server')
const perSecond = 50
const burst = 8

test('three servers on one Redis hold the limit of a tenant within 2 %', async (t) => {
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
tenants: { web: { limits: [{ requests: ${perSecond}/s, burst: ${burst} }] } }
store: redis://127.0.0.1:${port}/2
`,
    ['m'],
  )
  t.after(() => folder.remove())
  const key = await folder.key('web-1', '--role', 'caller', '--tenant', 'web')
  const servers = await Promise.all([1, 2, 3].map(() => startServerProcess(folder.flags)))
  t.after(() => Promise.all(servers.map((server) => server.stop())))
  await Promise.all(servers.map((server) => server.said('limits are shared through Redis')))
  const ask = async ({ url }: ServerProcess): Promise<number> => {
    const headers = { 'x-api-key': key }
    const answer = await fetch(`${url}/v2/models/m/infer`, { method: 'POST', body: inferBody(), headers })
    await answer.arrayBuffer()
    return answer.status
  }
  /** Asks all servers again and again; the ones that pass, and the seconds that went by. */
  const drive = async (ms: number): Promise<{ passed: number; refused: number; secs: number }> => {
    let [passed, refused] = [0, 0]
    const start = performance.now()
    const loop = async (server: ServerProcess): Promise<void> => {
      while (performance.now() - start < ms) {
        const status = await ask(server)
        if (status === 200) passed++
        else if (status === 429) refused++
        else assert.fail(String(status))
      }
    }
    await Promise.all(servers.flatMap((server) => [loop(server), loop(server), loop(server)]))
    return { passed, refused, secs: (performance.now() - start) / 1000 }
  }
  await drive(500)
  const { passed, refused, secs } = await drive(8000)
  const allowed = perSecond * secs
  assert.ok(refused > 0, `${refused} refused`)
  assert.ok(passed <= (allowed + burst) * 1.02, `${passed} of ${allowed + burst}`)
  assert.ok(passed >= allowed * 0.98, `${passed} of ${allowed}, ${refused} refused`)

  const [first] = servers as [ServerProcess]
  redis.kill('SIGKILL')
  await once(redis, 'exit')
  await first.said('is away, each server counts for itself')
  assert.equal(await ask(first), 200)
  await drive(300)
  assert.equal(first.output.split('is away').length, 2)
  redis = startRedis()
  await until(() => first.output.split('limits are shared through Redis').length > 2, 'Redis to be back')
  assert.equal(await ask(first), 200)
})

// While models load, the ports are open: health is told, and everything else is refused with what is loading.

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { SystemClock } from '../../src/base/clock.ts'
import { createGrpcClient } from '../../src/client/grpc/grpc-client.ts'
import { InferenceError } from '../../src/client/inference-error.ts'
import { startServer, type RunningServer } from '../../src/server.ts'
import { MemoryLog } from '../fakes/memory-log.ts'
import { optionsOf } from '../fixtures/options-of.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { until } from '../until.ts'

/** The module is loaded as soon as there is a file `go`, and the model doubles its input. */
const slowModel = `
  import { existsSync } from 'node:fs'
  import { fromBytes } from 'galatea/model'
  const file = new URL('../../go', import.meta.url)
  await new Promise((resolve) => {
    const looks = setInterval(() => existsSync(file) && resolve(clearInterval(looks)), 5)
  })
  export const infer = (request) => [fromBytes('OUT', 'INT32', [1], request.input('IN').bytes)]`
const config = `backend: "typescript" max_batch_size: 0
  input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }
  output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }`

type Starting = {
  readonly log: MemoryLog
  readonly starting: Promise<RunningServer>
  readonly finishLoading: () => Promise<void>
}

async function startSlowly(context: TestContext, ...flags: string[]): Promise<Starting> {
  const repository = await temporaryRepository({ 'slow/config.pbtxt': config, 'slow/1/model.js': slowModel })
  const log = new MemoryLog()
  const options = optionsOf([
    `--model-repository=${repository.root}`,
    '--http-port=0',
    '--grpc-port=0',
    '--metrics-port=0',
    ...flags,
  ])
  const starting = startServer(options, { clock: new SystemClock(), log })
  const finishLoading = (): Promise<void> => writeFile(path.join(repository.root, 'go'), '')
  context.after(async () => {
    await finishLoading()
    await (await starting).drain(1000)
    await repository.remove()
  })
  return { log, starting, finishLoading }
}

const inferBody = JSON.stringify({ inputs: [{ name: 'IN', shape: [1], datatype: 'INT32', data: [21] }] })

test('the ports of a server whose models load tell of its health and of what is loading', async (context) => {
  const { log, starting, finishLoading } = await startSlowly(context)
  const ports = (): RegExpExecArray | null => {
    const lines = log.entries.map(({ message }) => message).join('\n')
    return /open while models load: HTTP (\S+), gRPC (\S+), metrics (\S+)/.exec(lines)
  }
  await until(() => ports() !== null, 'open ports')
  const [, http = '', grpc = '', metrics = ''] = ports() ?? []
  const ask = (target: string, init: RequestInit = {}): Promise<Response> => fetch(`http://${http}${target}`, init)
  const json = async (target: string): Promise<Record<string, unknown>> =>
    (await (await ask(target)).json()) as Record<string, unknown>
  await until(async () => ((await json('/v2/health/detail'))['loading'] as unknown[]).length > 0, 'a load')

  assert.equal((await ask('/v2/health/live')).status, 200)
  assert.equal((await ask('/health/live')).status, 200)
  assert.equal((await ask('/v2')).status, 200)
  const ready = await ask('/v2/health/ready')
  assert.equal(ready.status, 503)
  assert.equal(ready.headers.get('retry-after'), '1')
  const { error, loading } = (await ready.json()) as { error: string; loading: { name: string; since: string }[] }
  assert.match(error, /^Server not ready: the server is starting, it loads 'slow' for [\d.]+ s\./)
  assert.deepEqual(
    loading.map(({ name }) => name),
    ['slow'],
  )
  assert.ok(Math.abs(Date.parse(loading[0]?.since ?? '') - Date.now()) < 600_000)
  for (const target of ['/v2/models/slow/ready', '/v2/models/slow', '/v2/models/stats', '/v2/rollouts']) {
    assert.equal((await ask(target)).status, 503, target)
  }
  const refused = await ask('/v2/models/slow/infer', { method: 'POST', body: inferBody })
  assert.equal(refused.status, 503)
  assert.match(((await refused.json()) as { error: string }).error, /it loads 'slow'/)
  assert.equal((await ask('/v2/nothing')).status, 404)
  assert.match(
    await (await fetch(`http://${metrics}/metrics`)).text(),
    /galatea_not_ready\{reason="server_starting"\} 1/,
  )

  const client = createGrpcClient({ url: grpc })
  context.after(() => client.close())
  assert.equal(await client.isLive(), true)
  assert.equal(await client.isReady(), false)
  assert.equal(await client.isModelReady('slow'), false)
  const unready = (reason: unknown): boolean =>
    reason instanceof InferenceError && /it loads 'slow'/.test(reason.message)
  await assert.rejects(client.modelMetadata('slow'), unready)

  await finishLoading()
  await until(async () => (await ask('/v2/health/ready')).status === 200, 'readiness')
  // Who hears that the server is ready is served, on the connections that were open before too.
  const answer = await ask('/v2/models/slow/infer', { method: 'POST', body: inferBody })
  assert.deepEqual(((await answer.json()) as { outputs: { data: number[] }[] }).outputs[0]?.data, [21])
  assert.equal((await client.modelMetadata('slow')).name, 'slow')
  assert.deepEqual((await json('/v2/health/detail'))['loading'], [])
  assert.equal((await starting).httpAddress?.port, Number(http.split(':')[1]))
})

test("with Triton's order no port is open before the models are loaded", async (context) => {
  const { log, starting, finishLoading } = await startSlowly(context, '--listen-while-loading=false')
  await until(() => log.entries.some(({ message }) => message.includes('loading')), 'a load')
  await finishLoading()
  const server = await starting
  assert.ok(server.httpAddress !== null)
  assert.equal(
    log.entries.some(({ message }) => message.includes('open while models load')),
    false,
  )
})

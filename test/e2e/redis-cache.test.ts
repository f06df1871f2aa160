// The response cache in a real Redis, shared by real servers; and requests that share one execution.

import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test, { after } from 'node:test'
import { freePort } from '../free-port.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { requireTool } from '../tool.ts'
import { httpInfer } from './http-infer.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const redisServer = await requireTool('redis-server')

/** Answers with a number that no other run of the model gives. */
const model = `
import { tensor } from 'galatea/model'
export const config = {
  input: [{ name: 'X', dataType: 'INT32', dims: [1] }],
  output: [{ name: 'Y', dataType: 'INT32', dims: [1] }],
}
export async function infer(request) {
  await new Promise((resolve) => setTimeout(resolve, request.input('X').asInt32()[0]))
  return [tensor('Y', 'INT32', [1], [Math.floor(Math.random() * 2 ** 31)])]
}
`
const { root, remove } = await temporaryRepository({
  'dice/1/model.js': model,
  'dice/config.pbtxt': 'backend: "typescript"\nresponse_cache { enable: true }\n',
  'once/1/model.js': model,
  'once/config.pbtxt': 'backend: "typescript"\nparameters { key: "single_flight" value { string_value: "true" } }\n',
})
const folder = await mkdtemp(path.join(tmpdir(), 'galatea-redis-'))
const port = await freePort()
const flags = [
  `--model-repository=${root}`,
  '--model-control-mode=explicit',
  '--load-model=*',
  '--cache-config=redis,host=127.0.0.1',
  `--cache-config=redis,port=${port}`,
  '--cache-config=redis,password=open sesame',
  '--cache-config=redis,socket_timeout=5000',
]
let redis: ChildProcess | null = null

type Statistics = { model_stats: [{ inference_count: number; inference_stats: { cache_hit: { count: number } } }] }

after(async () => {
  await stopRedis()
  await rm(folder, { recursive: true, force: true })
  await remove()
})

async function startRedis(): Promise<void> {
  const settings = { port: String(port), bind: '127.0.0.1', dir: folder, requirepass: 'open sesame', appendonly: 'yes' }
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  redis = spawn(redisServer, args, { stdio: 'ignore' })
  const isThere = async (): Promise<boolean> => {
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    return isOpen
  }
  await until(isThere, 'Redis')
}

async function stopRedis(): Promise<void> {
  const child = redis
  if (child === null) return
  redis = null
  child.kill('SIGTERM')
  await once(child, 'exit')
}

async function ask(server: ServerProcess, name: string, x: number): Promise<number> {
  const { outputs, error } = await httpInfer(server.url, name, [
    { name: 'X', datatype: 'INT32', shape: [1], data: [x] },
  ])
  assert.equal(error, '')
  return Number(outputs[0]?.data[0])
}

/** Inserting goes on after the answer: asks until the same answer comes twice. */
async function askUntilKept(server: ServerProcess, x: number): Promise<number> {
  let last = -1
  await until(async () => last === (last = await ask(server, 'dice', x)), 'the same answer twice')
  return last
}

test('servers share answers through Redis, do without it while it is away, and never serve a changed model from it', async () => {
  await startRedis()
  await using first = await startServerProcess(flags)
  await using second = await startServerProcess(flags)
  await first.said('connected to Redis')
  await second.said('connected to Redis')
  const kept = await askUntilKept(first, 0)
  assert.equal(await ask(second, 'dice', 0), kept)
  const { model_stats: statistics } = (await (await fetch(`${second.url}/v2/models/dice/stats`)).json()) as Statistics
  assert.equal(statistics[0].inference_count, 0)
  assert.equal(statistics[0].inference_stats.cache_hit.count, 1)

  await stopRedis()
  await second.said('is away, requests run without the cache')
  assert.notEqual(await ask(second, 'dice', 0), await ask(second, 'dice', 0))
  await startRedis()
  await second.said('connected to Redis', 2)
  assert.equal(await ask(second, 'dice', 0), kept, 'Redis has kept it')

  await appendFile(path.join(root, 'dice/1/model.js'), '// changed\n')
  const loaded = await fetch(`${second.url}/v2/repository/models/dice/load`, { method: 'POST' })
  assert.equal(loaded.status, 200)
  assert.notEqual(await ask(second, 'dice', 0), kept)
})

test('equal requests that come together run once when the model asks for it', async () => {
  await using server = await startServerProcess([`--model-repository=${root}`])
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(server, 'once', 300)))
  assert.equal(new Set(answers).size, 1)
  const others = await Promise.all([ask(server, 'dice', 1), ask(server, 'dice', 1)])
  assert.equal(new Set(others).size, 2)
})

// Models that come into memory on demand and leave it again, seen through the ports of a real server.

import assert from 'node:assert/strict'
import test from 'node:test'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { delayRequest } from './delay-repository.ts'
import { startServerProcess } from './server-process.ts'

const config = `backend: "identity"
input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }
parameters { key: "memory_bytes" value { string_value: "10MiB" } }
`

test('lazy models are loaded by requests, and make room for each other within the limit', async (context) => {
  const files = Object.fromEntries(
    ['a', 'b', 'c'].flatMap((name) => [
      [`${name}/config.pbtxt`, config],
      [`${name}/1/`, ''],
    ]),
  )
  const { root, remove } = await temporaryRepository(files)
  context.after(remove)
  const flags = ['--model-memory-limit=20MiB', '--model-lazy-load=true', '--model-control-mode=explicit']
  await using server = await startServerProcess([`--model-repository=${root}`, '--load-model=*', ...flags])
  const post = async (path: string, body = ''): Promise<{ status: number; text: string }> => {
    const response = await fetch(`${server.url}${path}`, { method: 'POST', body })
    return { status: response.status, text: await response.text() }
  }
  const infer = async (model: string): Promise<number> => (await post(`/v2/models/${model}/infer`, delayRequest)).status
  const states = async (): Promise<string[]> =>
    (JSON.parse((await post('/v2/repository/index')).text) as { name: string; state: string; reason?: string }[]).map(
      ({ name, state, reason }) => `${name} ${reason ?? state}`,
    )
  const asleep = 'not loaded yet: it is lazy, the first request loads it'
  assert.deepEqual(await states(), [`a ${asleep}`, `b ${asleep}`, `c ${asleep}`])
  assert.equal((await fetch(`${server.url}/v2/health/ready`)).status, 200)
  assert.equal((await fetch(`${server.url}/v2/models/a/ready`)).status, 200)
  const metadata = (await (await fetch(`${server.url}/v2/models/a`)).json()) as { versions: string[] }
  assert.deepEqual(metadata.versions, ['1'])
  assert.deepEqual(await Promise.all(['a', 'a', 'a'].map(infer)), [200, 200, 200])
  assert.deepEqual([await infer('b'), await infer('a'), await infer('c')], [200, 200, 200])
  const evicted = 'not loaded: it made room for another model within --model-memory-limit'
  assert.deepEqual(await states(), ['a READY', `b ${evicted}`, 'c READY'])
  const port = /Started Metrics Service at [^\s"]*:(\d+)/.exec(server.output)?.[1]
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  for (const line of [
    'galatea_model_state{model="a",state="READY",version="1"} 1',
    'galatea_model_state{model="b",state="SLEEPING",version="1"} 1',
    'galatea_model_memory_bytes{model="a"} 10485760',
    'galatea_cold_start_seconds_count{model="c"} 1',
    'galatea_evictions_total{model="b",reason="memory"} 1',
  ]) {
    assert.ok(metrics.includes(`${line}\n`), line)
  }
  assert.equal((await post('/v2/repository/models/b/unload')).status, 200)
  assert.equal(await infer('b'), 404, 'one that was unloaded does not come back by itself')
})

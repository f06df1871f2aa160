// Health of a real server: what is not ready and why, and whether its workers are alive.

import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

type Detail = {
  readonly live: boolean
  readonly ready: boolean
  readonly state: string
  readonly reasons: readonly string[]
  readonly event_loop_delay_ms: number
  readonly memory: { readonly rss_bytes: number }
  readonly models: readonly {
    readonly name: string
    readonly ready: boolean
    readonly reason: string
    readonly state: string
    readonly instances: readonly { readonly name: string; readonly hung: boolean; readonly restarts: number }[]
  }[]
}

const statusOf = async (server: ServerProcess, target: string): Promise<number> => {
  const answer = await fetch(`${server.url}${target}`)
  await answer.arrayBuffer()
  return answer.status
}

const detailOf = async (server: ServerProcess): Promise<Detail> =>
  (await (await fetch(`${server.url}/v2/health/detail`)).json()) as Detail

const infer = (server: ServerProcess, model: string, seconds: number): Promise<Response> =>
  fetch(`${server.url}/v2/models/${model}/infer`, {
    method: 'POST',
    body: JSON.stringify({ inputs: [{ name: 'SECONDS', shape: [1], datatype: 'FP32', data: [seconds] }] }),
  })

/** Asks again and again until liveness is as wanted. */
async function untilLiveIs(server: ServerProcess, status: number): Promise<void> {
  await until(async () => (await statusOf(server, '/v2/health/live')) === status, `liveness ${status}`, { everyMs: 20 })
}

/** What liveness said while the request was under way. */
async function livenessDuring(server: ServerProcess, request: Promise<Response>): Promise<Set<number>> {
  const said = new Set<number>()
  const over = request.then(() => true)
  const soon = (): Promise<boolean> => new Promise((resolve) => setTimeout(() => resolve(false), 20))
  do said.add(await statusOf(server, '/v2/health/live'))
  while (!(await Promise.race([over, soon()])))
  assert.equal((await request).status, 200)
  return said
}

async function pythonWorkersOf(pid: number): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const [stat, command] = await Promise.all(
      ['stat', 'cmdline'].map((file) => readFile(`/proc/${name}/${file}`, 'utf8').catch(() => '')),
    )
    const parent = Number(stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
    if (parent === pid && command?.includes('worker.py') === true) found.push(Number(name))
  }
  return found
}

const seconds = `
  input: [{ name: 'SECONDS', dataType: 'FP32', dims: [1] }],
  output: [{ name: 'OUT', dataType: 'FP32', dims: [1] }],`

const models = {
  'sleeps/config.pbtxt': `backend: "python"
input [{ name: "SECONDS" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [1] }]`,
  'sleeps/1/model.py': `
import threading, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        seconds = pb_utils.get_input_tensor_by_name(requests[0], "SECONDS").as_numpy()
        if seconds[0] < 0:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire(timeout=-float(seconds[0]))
        else:
            time.sleep(float(seconds[0]))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", seconds)]) for _ in requests]
`,
  'blocks/1/model.ts': `
import { tensor } from 'galatea/model'
export const config = {${seconds}}
export function infer(request) {
  const [seconds] = request.input('SECONDS').asFloat32()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000)
  return [tensor('OUT', 'FP32', [1], [seconds])]
}
`,
  'computes/1/model.ts': `
import { tensor } from 'galatea/model'
export const config = {${seconds}}
export function infer(request) {
  const [seconds] = request.input('SECONDS').asFloat32()
  for (const until = performance.now() + seconds * 1000; performance.now() < until;);
  return [tensor('OUT', 'FP32', [1], [seconds])]
}
`,
}

test('with --live-check=compute a worker that hangs ends liveness, and one that is at work does not', async (t) => {
  const repository = await temporaryRepository(models)
  t.after(repository.remove)
  await using server = await startServerProcess([
    `--model-repository=${repository.root}`,
    '--live-check=compute',
    '--live-timeout-secs=0.5',
  ])
  assert.equal(await statusOf(server, '/v2/health/live'), 200)
  await t.test('a Python model that takes its time is at work', async () => {
    assert.deepEqual(await livenessDuring(server, infer(server, 'sleeps', 2)), new Set([200]))
  })
  await t.test('a Python model that waits for a lock hangs until it gets it', async () => {
    const said = await livenessDuring(server, infer(server, 'sleeps', -3))
    assert.ok(said.has(400), 'it was not noticed')
    await untilLiveIs(server, 200)
  })
  // Only newer versions of Node tell what another thread uses of the CPU.
  if ('cpuUsage' in Worker.prototype) {
    await t.test('a TypeScript model that computes without a pause is at work', async () => {
      assert.deepEqual(await livenessDuring(server, infer(server, 'computes', 2)), new Set([200]))
    })
  }
  await t.test('a TypeScript model that is blocked hangs until it goes on', async () => {
    const said = await livenessDuring(server, infer(server, 'blocks', 3))
    assert.ok(said.has(400), 'it was not noticed')
    await untilLiveIs(server, 200)
  })
  await t.test('a Python worker that is stopped hangs until it goes on', async () => {
    const workers = await pythonWorkersOf(server.pid)
    assert.equal(workers.length, 1)
    process.kill(workers[0] as number, 'SIGSTOP')
    try {
      await untilLiveIs(server, 400)
      assert.equal(await statusOf(server, '/health/live'), 400)
      const { live, reasons, models: known } = await detailOf(server)
      assert.equal(live, false)
      assert.deepEqual(reasons, ["instance 'sleeps_0' of model 'sleeps' shows no sign of life"])
      assert.equal(known.find(({ name }) => name === 'sleeps')?.instances[0]?.hung, true)
    } finally {
      process.kill(workers[0] as number, 'SIGCONT')
    }
    await untilLiveIs(server, 200)
  })
  assert.match(server.output, /worker hangs: it shows no sign of life/)
  assert.match(server.output, /worker is alive again/)
})

test('a server that is not ready says why, in detail and among its metrics', async (t) => {
  const repository = await temporaryRepository({
    'fine/1/model.ts': models['blocks/1/model.ts'],
    'broken/1/model.ts': `${models['blocks/1/model.ts']}\nexport function initialize() { throw new Error('no licence') }`,
  })
  t.after(repository.remove)
  await using server = await startServerProcess([`--model-repository=${repository.root}`, '--exit-on-error=false'])
  for (const prefix of ['/v2/health', '/health']) {
    assert.equal(await statusOf(server, `${prefix}/live`), 200)
    assert.equal(await statusOf(server, `${prefix}/ready`), 400)
  }
  const detail = await detailOf(server)
  assert.equal(detail.live, true)
  assert.equal(detail.ready, false)
  assert.equal(detail.state, 'READY')
  assert.equal(detail.reasons.length, 1)
  assert.match(detail.reasons[0] ?? '', /^model 'broken' version 1: .*no licence/)
  assert.deepEqual(Object.fromEntries(detail.models.map(({ name, state, ready }) => [name, [state, ready]])), {
    broken: ['UNAVAILABLE', false],
    fine: ['READY', true],
  })
  assert.ok(detail.memory.rss_bytes > 0 && detail.event_loop_delay_ms >= 0)
  const port = /Started Metrics Service at [^\s"]+:(\d+)/.exec(server.output)?.[1]
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  assert.match(page, /^galatea_ready 0$/m)
  assert.match(page, /^galatea_not_ready\{reason="model_not_ready"\} 1$/m)
  assert.match(page, /^galatea_not_ready\{reason="server_exiting"\} 0$/m)
})

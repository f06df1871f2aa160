// Statistics, metrics and traces of a real server, held against the client's own ledger.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { httpInfer } from './http-infer.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const model = `
export const config = {
  maxBatchSize: 4,
  input: [{ name: 'X', dataType: 'INT32', dims: [1] }],
  output: [{ name: 'X', dataType: 'INT32', dims: [1] }],
}
export function infer(request) {
  const x = request.input('X')
  if (x.asInt32()[0] < 0) throw new Error('negative')
  return [x]
}
`

let folder: string
let server: ServerProcess
let metricsUrl: string
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-observed-'))
  await mkdir(path.join(folder, 'models/picky/1'), { recursive: true })
  await writeFile(path.join(folder, 'models/picky/1/model.ts'), model)
  await writeFile(
    path.join(folder, 'models/picky/config.pbtxt'),
    'backend: "typescript" metric_tags { key: "team" value: "blue" }\n',
  )
  server = await startServerProcess([
    `--model-repository=${path.join(folder, 'models')}`,
    '--model-control-mode=explicit',
    '--load-model=picky',
    `--trace-config=triton,file=${path.join(folder, 'trace.json')}`,
  ])
  metricsUrl = `http://${server.metricsAddress}/metrics`
})
after(async () => {
  await server.stop()
  await rm(folder, { recursive: true })
})

const rowsOf = (values: readonly number[]) => [
  { name: 'X', datatype: 'INT32', shape: [values.length, 1], data: values },
]

async function metrics(): Promise<Map<string, number>> {
  const text = await (await fetch(metricsUrl)).text()
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

type Duration = { count: number; ns: number }
type Stats = {
  inference_count: number
  execution_count: number
  inference_stats: Record<string, Duration>
  batch_stats: { batch_size: number; compute_infer: Duration }[]
}
async function statistics(): Promise<Stats> {
  const answer = (await (await fetch(`${server.url}/v2/models/picky/stats`)).json()) as { model_stats: [Stats] }
  return answer.model_stats[0]
}

/** A client may have its answer before the Worker has said that its batch is done. */
async function statisticsAfter(executions: number): Promise<Stats> {
  for (let i = 0; i < 1000; i++) {
    const stats = await statistics()
    if (stats.execution_count >= executions) return stats
  }
  return statistics()
}

const labels = '_team="blue",model="picky",version="1"'
const failed = '_team="blue",model="picky",reason="BACKEND",version="1"'

type Ledger = { success: number; failure: number; rows: number; bySize: Map<number, number> }

/** Many requests at once, some of which fail in the model and some of which never reach it. */
async function load(ledger: Ledger, count: number): Promise<void> {
  const send = async (i: number): Promise<void> => {
    const size = (i % 4) + 1
    const isFailing = i % 5 === 0
    const values = Array.from({ length: size }, () => (isFailing ? -1 : i))
    const { status } = await httpInfer(server.url, 'picky', rowsOf(values))
    assert.equal(status, isFailing ? 500 : 200, server.output)
    if (isFailing) ledger.failure++
    else {
      ledger.success++
      ledger.rows += size
    }
    ledger.bySize.set(size, (ledger.bySize.get(size) ?? 0) + 1)
    if (i % 7 === 0) assert.equal((await httpInfer(server.url, 'picky', [])).status, 400)
  }
  for (let i = 0; i < count; i += 16) {
    await Promise.all(Array.from({ length: Math.min(16, count - i) }, (_, k) => send(i + k)))
  }
}

test('counters equal the client’s own ledger, and go on through a reload', async () => {
  const ledger: Ledger = { success: 0, failure: 0, rows: 0, bySize: new Map() }
  await load(ledger, 200)
  const stats = await statisticsAfter(ledger.success + ledger.failure)
  assert.equal(stats.inference_stats['success']?.count, ledger.success)
  assert.equal(stats.inference_stats['fail']?.count, ledger.failure)
  assert.equal(stats.inference_stats['compute_infer']?.count, ledger.success)
  assert.equal(stats.inference_count, ledger.rows)
  assert.equal(stats.execution_count, ledger.success + ledger.failure)
  assert.deepEqual(
    new Map(stats.batch_stats.map(({ batch_size, compute_infer }) => [batch_size, compute_infer.count])),
    new Map([...ledger.bySize].sort(([a], [b]) => a - b)),
  )
  const phases = ['queue', 'compute_input', 'compute_infer', 'compute_output']
  const phaseNs = phases.reduce((sum, phase) => sum + (stats.inference_stats[phase]?.ns ?? NaN), 0)
  assert.ok(stats.inference_stats['success'].ns >= phaseNs)

  const before = await metrics()
  await writeFile(path.join(folder, 'models/picky/1/model.ts'), `${model}// changed\n`)
  assert.equal((await fetch(`${server.url}/v2/repository/models/picky/load`, { method: 'POST' })).status, 200)
  assert.equal((await statistics()).inference_count, 0, 'statistics begin anew')
  const executed = ledger.success + ledger.failure
  await load(ledger, 100)
  await statisticsAfter(ledger.success + ledger.failure - executed)
  const now = await metrics()
  for (const [series, value] of before) {
    if (/^nv_inference_(?!pending)|_(count|bucket)\{/.test(series)) assert.ok((now.get(series) ?? -1) >= value, series)
  }
  assert.equal(now.get(`nv_inference_request_success{${labels}}`), ledger.success)
  assert.equal(now.get(`nv_inference_request_failure{${failed}}`), ledger.failure)
  assert.equal(now.get(`nv_inference_count{${labels}}`), ledger.rows)
  assert.equal(now.get(`nv_inference_exec_count{${labels}}`), ledger.success + ledger.failure)
  assert.equal(now.get(`galatea_request_duration_seconds_count{${labels}}`), ledger.success)
  assert.equal(now.get(`galatea_batch_size_count{${labels}}`), ledger.success + ledger.failure)
  assert.equal(now.get(`nv_inference_pending_request_count{${labels}}`), 0)
  assert.equal(now.get(`galatea_requests_in_flight{${labels}}`), 0)
  assert.equal(now.get('galatea_ready'), 1)
  assert.ok((now.get('nv_cpu_memory_used_bytes') ?? 0) > 0)
})

test("the identity backend's own metric is on the page while its model is loaded", async () => {
  await mkdir(path.join(folder, 'models/echo/1'), { recursive: true })
  const tensor = 'data_type: TYPE_STRING dims: [ -1 ]'
  await writeFile(
    path.join(folder, 'models/echo/config.pbtxt'),
    `backend: "identity" input { name: "INPUT0" ${tensor} } output { name: "OUTPUT0" ${tensor} }\n`,
  )
  const series = 'input_byte_size_counter{model="echo",version="1"}'
  assert.equal((await fetch(`${server.url}/v2/repository/models/echo/load`, { method: 'POST' })).status, 200)
  assert.equal((await metrics()).get(series), 0)
  const input = { name: 'INPUT0', datatype: 'BYTES', shape: [2], data: ['ab', 'cde'] }
  assert.equal((await httpInfer(server.url, 'echo', [input])).status, 200)
  // Four bytes of length before each.
  assert.equal((await metrics()).get(series), 13)
  assert.equal((await fetch(`${server.url}/v2/repository/models/echo/unload`, { method: 'POST' })).status, 200)
  await until(async () => !(await metrics()).has(series), 'the series to go with its model')
})

test('the log can be made quieter while the server runs', async () => {
  const set = (body: string): Promise<Response> => fetch(`${server.url}/v2/logging`, { method: 'POST', body })
  await set('{"log_info":false}')
  const before = server.output.length
  assert.equal((await fetch(`${server.url}/v2/repository/models/picky/unload`, { method: 'POST' })).status, 200)
  assert.equal((await fetch(`${server.url}/v2/repository/models/picky/load`, { method: 'POST' })).status, 200)
  await set('{"log_info":true}')
  assert.ok(!server.output.slice(before).includes('loading: picky'))
})

test('requests are traced from the moment it is switched on, and the file is whole at the end', async () => {
  const settings = await fetch(`${server.url}/v2/trace/setting`, {
    method: 'POST',
    body: '{"trace_level":["TIMESTAMPS","TENSORS"],"trace_rate":"2"}',
  })
  assert.equal(settings.status, 200)
  for (let i = 0; i < 4; i++) await httpInfer(server.url, 'picky', rowsOf([i]))
  await server.stop()
  type Record = { id: number; timestamps?: [{ name: string; ns: number }]; tensor?: { name: string; data: string } }
  const records = JSON.parse(await readFile(path.join(folder, 'trace.json'), 'utf8')) as Record[]
  assert.deepEqual([...new Set(records.map(({ id }) => id))], [1, 2])
  const times = new Map(
    records
      .flatMap(({ id, timestamps }) => (id === 1 && timestamps ? timestamps : []))
      .map(({ name, ns }) => [name, ns]),
  )
  const order = [
    'HTTP_RECV_START',
    'HTTP_RECV_END',
    'REQUEST_START',
    'QUEUE_START',
    'COMPUTE_START',
    'COMPUTE_INPUT_END',
    'COMPUTE_OUTPUT_START',
    'COMPUTE_END',
    'INFER_RESPONSE_COMPLETE',
    'HTTP_SEND_START',
    'HTTP_SEND_END',
  ]
  for (const [i, name] of order.entries()) {
    assert.ok(times.has(name), name)
    if (i > 0) assert.ok((times.get(name) as number) >= (times.get(order[i - 1] as string) as number), name)
  }
  assert.deepEqual(
    records.flatMap(({ id, tensor }) => (id === 1 && tensor ? [[tensor.name, tensor.data]] : [])),
    [
      ['X', '1'],
      ['X', '1'],
    ],
  )
})

// Under load, through reloads: what the server counts is what its clients saw, to the last request, and nothing goes back.

import assert from 'node:assert/strict'
import { appendFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { httpInfer } from './http-infer.ts'
import { rowsOf } from './observed-server.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

/** What is negative fails. */
const model = `
export const config = {
  maxBatchSize: 8,
  input: [{ name: 'X', dataType: 'INT32', dims: [1] }],
  output: [{ name: 'X', dataType: 'INT32', dims: [1] }],
}
export async function infer(request) {
  const x = request.input('X')
  if (x.asInt32()[0] < 0) throw new Error('negative')
  return [x]
}
`

const queue = 'default_queue_policy { max_queue_size: 12 }'
const configs: Readonly<Record<string, string>> = {
  mixed: `backend: "typescript" dynamic_batching { max_queue_delay_microseconds: 500 ${queue} }`,
  kept: 'backend: "typescript" response_cache { enable: true }',
  slow: `backend: "identity" max_batch_size: 8
    input { name: "X" data_type: TYPE_INT32 dims: 1 } output { name: "X" data_type: TYPE_INT32 dims: 1 }
    parameters { key: "execute_delay_ms" value { string_value: "500" } }`,
}

let folder: string
let server: ServerProcess
let metricsUrl: string
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-counted-'))
  for (const [name, config] of Object.entries(configs)) {
    await mkdir(path.join(folder, name, '1'), { recursive: true })
    await writeFile(path.join(folder, name, '1/model.ts'), model)
    await writeFile(path.join(folder, name, 'config.pbtxt'), `${config}\n`)
  }
  server = await startServerProcess([
    `--model-repository=${folder}`,
    '--model-control-mode=explicit',
    '--load-model=*',
    '--cache-config=local,size=1048576',
    '--metrics-config=summary_latencies=true',
  ])
  metricsUrl = `http://${server.metricsAddress}/metrics`
})
after(async () => {
  await server.stop()
  await rm(folder, { recursive: true })
})

type Page = ReadonlyMap<string, number>

async function scrape(): Promise<Page> {
  const text = await (await fetch(metricsUrl)).text()
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

/** All that only grows: counters, and what histograms and summaries count. */
const isCumulative = (series: string): boolean => !series.startsWith('nv_inference_pending') && isCounter(series)
const isCounter = (series: string): boolean =>
  /^nv_inference_(request_(success|failure|duration)|count|exec_count|queue_duration|compute)/.test(series)
    ? !series.includes('quantile=')
    : /^(nv_cache_(num|hit|miss)_.*per_model|[a-z_]+_(total|count|sum|bucket))(\{|$)/.test(series) &&
      !series.includes('quantile=')

/** Pages until told to stop; each is held against the one before it. */
async function watch(isOver: () => boolean): Promise<number> {
  let last: Page = await scrape()
  let pages = 1
  while (!isOver()) {
    const page = await scrape()
    pages++
    for (const [series, value] of last) {
      if (isCumulative(series))
        assert.ok((page.get(series) ?? -1) >= value, `${series}: ${value} → ${page.get(series)}`)
    }
    last = page
  }
  return pages
}

type Ledger = {
  success: number
  rows: number
  failed: number
  failedRows: number
  rejected: number
  invalid: number
  unknown: number
}

async function sendOne(ledger: Ledger, value: number, rows: number): Promise<void> {
  const { status } = await httpInfer(server.url, 'mixed', rowsOf(Array.from({ length: rows }, () => value)))
  if (status === 200) {
    ledger.success++
    ledger.rows += rows
  } else if (status === 500) {
    ledger.failed++
    ledger.failedRows += rows
  } else {
    assert.equal(status, 503)
    ledger.rejected++
  }
}

/** Many at once: more than the queue holds, some that fail, some that no model takes. */
async function load(ledger: Ledger, bursts: number): Promise<void> {
  for (let burst = 0; burst < bursts; burst++) {
    const requests = Array.from({ length: 24 }, async (_, i) => {
      await sendOne(ledger, i % 7 === 0 ? -1 : i, 1 + (i % 4))
      if (i % 8 !== 0) return
      const { status } = await httpInfer(server.url, 'mixed', [])
      // A request that finds the queue full is refused before it is read.
      if (status === 503) ledger.rejected++
      else {
        assert.equal(status, 400)
        ledger.invalid++
      }
      assert.equal((await httpInfer(server.url, 'nobody', rowsOf([1]))).status, 404)
      ledger.unknown++
    })
    await Promise.all(requests)
  }
}

async function reload(): Promise<void> {
  await appendFile(path.join(folder, 'mixed/1/model.ts'), '// changed\n')
  const answer = await fetch(`${server.url}/v2/repository/models/mixed/load`, { method: 'POST' })
  assert.equal(answer.status, 200, await answer.text())
}

const labels = 'model="mixed",version="1"'
const failureOf = (page: Page, reason: string): number | undefined =>
  page.get(`nv_inference_request_failure{model="mixed",reason="${reason}",version="1"}`)

/** A client may have its answer before the Worker has said that its batch is done. */
async function settledPage(isSettled: (page: Page) => boolean): Promise<Page> {
  let page = await scrape()
  for (let i = 0; i < 1000 && !isSettled(page); i++) page = await scrape()
  return page
}

test('counters equal the ledger of the clients and never go back, whatever is reloaded meanwhile', async () => {
  const ledger: Ledger = { success: 0, rows: 0, failed: 0, failedRows: 0, rejected: 0, invalid: 0, unknown: 0 }
  let isOver = false
  const watched = watch(() => isOver)
  await Promise.all([
    load(ledger, 12),
    (async () => {
      for (let i = 0; i < 4; i++) await reload()
    })(),
  ])
  await load(ledger, 4)
  isOver = true
  assert.ok((await watched) > 5)
  assert.ok(ledger.success > 0 && ledger.failed > 0 && ledger.rejected > 0, JSON.stringify(ledger))

  const executedRows = ledger.rows + ledger.failedRows
  const page = await settledPage((now) => (now.get(`galatea_batch_size_sum{${labels}}`) ?? 0) >= executedRows)
  const read = (family: string): number | undefined => page.get(`${family}{${labels}}`)
  assert.equal(read('nv_inference_request_success'), ledger.success)
  assert.equal(failureOf(page, 'BACKEND'), ledger.failed)
  assert.equal(failureOf(page, 'REJECTED'), ledger.rejected)
  assert.equal(failureOf(page, 'CANCELED'), 0)
  assert.equal(failureOf(page, 'OTHER'), 0)
  assert.equal(read('nv_inference_count'), ledger.rows)
  assert.equal(read('galatea_batch_size_sum'), executedRows)
  assert.equal(read('galatea_batch_size_count'), read('nv_inference_exec_count'))
  for (const kind of ['request', 'queue', 'compute']) {
    assert.equal(read(`galatea_${kind}_duration_seconds_count`), ledger.success, kind)
    assert.equal(page.get(`galatea_${kind}_duration_seconds_bucket{${labels},le="+Inf"}`), ledger.success, kind)
  }
  const refused = ['invalid', 'not_found'].map((reason) =>
    page.get(`galatea_requests_refused_total{reason="${reason}"}`),
  )
  assert.deepEqual(refused, [ledger.invalid, ledger.unknown])
  assert.equal(read('nv_inference_pending_request_count'), 0)
  assert.equal(read('galatea_requests_in_flight'), 0)
  assert.equal(read('galatea_worker_restarts_total'), 0)
})

test('clients that give up while they wait are counted as just that', async () => {
  const slow = 'model="slow",version="1"'
  const cancelled = (page: Page): number | undefined =>
    page.get('nv_inference_request_failure{model="slow",reason="CANCELED",version="1"}')
  const controller = new AbortController()
  const body = JSON.stringify({ inputs: rowsOf([1]) })
  const url = `${server.url}/v2/models/slow/infer`
  // The first keeps the one instance busy; the others wait behind it.
  const first = fetch(url, { method: 'POST', body })
  await settledPage((page) => (page.get(`galatea_requests_in_flight{${slow}}`) ?? 0) === 1)
  const others = Array.from({ length: 5 }, () => fetch(url, { method: 'POST', body, signal: controller.signal }))
  await settledPage((page) => (page.get(`nv_inference_pending_request_count{${slow}}`) ?? 0) === 5)
  controller.abort()
  const outcomes = await Promise.allSettled(others)
  assert.ok(outcomes.every(({ status }) => status === 'rejected'))
  assert.equal((await first).status, 200)
  const page = await settledPage((now) => (cancelled(now) ?? 0) >= 5)
  assert.equal(cancelled(page), 5)
  const success = `nv_inference_request_success{${slow}}`
  assert.equal(page.get(success), 1)
  assert.equal(page.get(`galatea_request_duration_seconds_count{${slow}}`), page.get(success))
})

test('answers from the cache are successes without an execution', async () => {
  const send = (value: number) => httpInfer(server.url, 'kept', rowsOf([value]))
  for (const value of [1, 2, 1, 1, 2, 3]) assert.equal((await send(value)).status, 200)
  const kept = 'model="kept",version="1"'
  const page = await settledPage((now) => (now.get(`nv_inference_exec_count{${kept}}`) ?? 0) >= 3)
  const read = (family: string): number | undefined => page.get(`${family}{${kept}}`)
  assert.equal(read('nv_inference_request_success'), 6)
  assert.equal(read('nv_inference_count'), 3)
  assert.equal(read('nv_inference_exec_count'), 3)
  assert.equal(read('nv_cache_num_hits_per_model'), 3)
  assert.equal(read('nv_cache_num_misses_per_model'), 3)
  assert.equal(read('galatea_request_duration_seconds_count'), 6)
  assert.equal(read('galatea_compute_duration_seconds_count'), 3)
  assert.equal(read('nv_cache_hit_summary_per_model_count'), 3)
  assert.deepEqual(
    ['entries', 'lookups', 'hits', 'misses', 'evictions'].map((name) => page.get(`nv_cache_num_${name}`)),
    [3, 6, 3, 3, 0],
  )
})

import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import test, { type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { Batch } from '../model/batch.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { RefusalCounts } from '../model/refusal-counts.ts'
import { TrafficMeter } from '../transport/traffic-meter.ts'
import { CustomMetricRegistry } from './custom-metrics.ts'
import { MetricsPage } from './metrics-page.ts'
import type { FamilySettings } from './model-family.ts'
import { ModelLedger, type MeteredVersion } from './model-ledger.ts'
import { openMetricsText } from './open-metrics-text.ts'
import { prometheusText } from './prometheus-text.ts'
import { Statistics } from './statistics.ts'

const plain: FamilySettings = {
  hasCounters: true,
  hasSummaries: false,
  hasFirstResponses: false,
  quantiles: [0.5, 0.99],
  hasOwnFamilies: false,
}

/** One request of three rows: 2 ms in all, 0.1 ms in the queue, 1 ms in the model. */
function worked(hasSummaries: boolean): Statistics {
  const statistics = new Statistics({ hasResponseStatistics: false, hasSummaries })
  const request = new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined })
  Object.assign(request, { batchSize: 3, receivedNs: 1e6, queueStartNs: 1.1e6, computeStartNs: 1.2e6 })
  Object.assign(request, { computeInputEndNs: 1.5e6, computeOutputStartNs: 2e6, computeEndNs: 2.2e6, endNs: 3e6 })
  statistics.recordResponse(request, InferenceResponse.of([]), 0)
  statistics.recordExecution(new Batch([request], 3, () => undefined), 3e6)
  return statistics
}

const workload = { count: 2, readyCount: 1, restartCount: 3, busyNs: (nowNs: number) => nowNs + 5e8 }
const version: MeteredVersion = {
  name: 'm',
  version: '1',
  pendingCount: 4,
  inFlightCount: 5,
  loadSeconds: 1.5,
  workload,
}

function pageOf(t: TestContext, settings: Partial<FamilySettings> = {}, ledger = new ModelLedger()) {
  const all = { ...plain, ...settings }
  const custom = new CustomMetricRegistry()
  const leave = ledger.open(version, new Map([['team', 'blue']]), worked(all.hasSummaries))
  const customFamilies = () => custom.families()
  const page = new MetricsPage(
    {
      clock: new ManualClock(),
      ledger,
      host: null,
      pinned: null,
      gpus: () => [],
      customFamilies,
      isReady: () => true,
      notReady: () => [],
      spans: null,
      accessLog: null,
      cache: null,
      refusals: new RefusalCounts(),
      clients: { limitBytes: 100, requestBytes: 3, answerBytes: 2, inflatedBytes: 1, refusedCount: 0 },
      slots: { limit: 10, refusedCount: 0 },
      traffic: [{ protocol: 'http', meter: new TrafficMeter() }],
    },
    all,
  )
  t.after(() => page.close())
  return { text: (format = prometheusText) => [...page.pieces(format)].join(''), custom, leave }
}

const labels = '_team="blue",model="m",version="1"'

test('counters tell what the statistics tell, durations in whole microseconds', (t) => {
  const text = pageOf(t).text()
  for (const line of [
    `nv_inference_request_success{${labels}} 1`,
    `nv_inference_request_failure{_team="blue",model="m",reason="BACKEND",version="1"} 0`,
    `nv_inference_count{${labels}} 3`,
    `nv_inference_exec_count{${labels}} 1`,
    `nv_inference_request_duration_us{${labels}} 2000`,
    `nv_inference_queue_duration_us{${labels}} 100`,
    `nv_inference_compute_input_duration_us{${labels}} 300`,
    `nv_inference_compute_infer_duration_us{${labels}} 500`,
    `nv_inference_compute_output_duration_us{${labels}} 200`,
    `nv_inference_pending_request_count{${labels}} 4`,
    'nv_pinned_memory_pool_total_bytes 0',
  ]) {
    assert.ok(text.includes(`${line}\n`), line)
  }
  assert.ok(!text.includes('galatea_') && !text.includes('summary') && !text.includes('nv_cpu'))
})

test('every family has one head, and every line belongs to the family above it', (t) => {
  const { text, custom } = pageOf(t, { hasSummaries: true, hasOwnFamilies: true })
  custom.createFamily('orders', 'Orders\ntaken', 'counter')
  custom.increment(custom.createMetric('orders', new Map([['shop', 'north']]), null), 2)
  custom.createFamily('unused', '', 'gauge')
  const heads: string[] = []
  for (const line of text().trimEnd().split('\n')) {
    const help = /^# HELP (\S+) /.exec(line)
    if (help !== null) heads.push(help[1] as string)
    else assert.ok(line.replace('# TYPE ', '').startsWith(heads.at(-1) ?? '-'), line)
  }
  assert.equal(new Set(heads).size, heads.length)
  assert.ok(heads.includes('orders') && !heads.includes('unused'))
  assert.ok(text().includes('# HELP orders Orders\\ntaken\n# TYPE orders counter\norders{shop="north"} 2\n'))
})

test('without counter_latencies the counters stand still and the durations are not there', (t) => {
  const text = pageOf(t, { hasCounters: false }).text()
  assert.ok(text.includes(`nv_inference_request_success{${labels}} 0\n`))
  assert.ok(!text.includes('duration_us'))
})

test('summaries have the quantiles that were asked for, last among the labels', (t) => {
  const text = pageOf(t, { hasSummaries: true }).text()
  assert.ok(text.includes(`nv_inference_request_summary_us_count{${labels}} 1\n`))
  assert.ok(text.includes(`nv_inference_request_summary_us_sum{${labels}} 2000\n`))
  const value = /nv_inference_request_summary_us\{_team="blue",model="m",version="1",quantile="0.99"\} (\d+)/.exec(text)
  assert.ok(Math.abs(Number(value?.[1]) - 2000) <= 32, text)
})

test('histograms count what succeeded', (t) => {
  const text = pageOf(t, { hasOwnFamilies: true }).text()
  for (const line of [
    `galatea_request_duration_seconds_count{${labels}} 1`,
    `galatea_request_duration_seconds_sum{${labels}} 0.002`,
    `galatea_request_duration_seconds_bucket{${labels},le="0.001"} 0`,
    `galatea_request_duration_seconds_bucket{${labels},le="0.0025"} 1`,
    `galatea_queue_duration_seconds_bucket{${labels},le="0.0001"} 1`,
    `galatea_compute_duration_seconds_sum{${labels}} 0.001`,
    `galatea_batch_size_sum{${labels}} 3`,
    `galatea_batch_size_bucket{${labels},le="2"} 0`,
    `galatea_batch_size_bucket{${labels},le="4"} 1`,
    `galatea_requests_in_flight{${labels}} 5`,
    `galatea_instances{${labels}} 2`,
    `galatea_instances_ready{${labels}} 1`,
    `galatea_instance_busy_seconds_total{${labels}} 0.5`,
    `galatea_worker_restarts_total{${labels}} 3`,
    'galatea_requests_refused_total{reason="too_large"} 0',
    'galatea_received_bytes_total{protocol="http"} 0',
    `nv_model_load_duration_secs{${labels}} 1.5`,
    'galatea_ready 1',
  ]) {
    assert.ok(text.includes(`${line}\n`), line)
  }
})

test('the series of a version that is gone are gone, its failures excepted', (t) => {
  const { text, leave } = pageOf(t, { hasOwnFamilies: true })
  leave(0)
  const families = [...text().matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1] ?? '')
  assert.deepEqual(
    families.filter((name) => name.startsWith('nv_inference') || name.includes('duration')),
    ['nv_inference_request_failure'],
  )
})

test('the histogram of first responses is there for models that have it, over their own bounds', (t) => {
  const ledger = new ModelLedger({ hasSummaries: false, hasFirstResponses: true, hasOwnFamilies: true })
  const streaming = { ...version, name: 'stream', version: '2' }
  const statistics = new Statistics({ hasResponseStatistics: false, firstResponseBounds: [10, 20] })
  const request = new InferenceRequest({ modelName: 'stream', inputs: [], sink: () => undefined })
  Object.assign(request, { receivedNs: 1e6, endNs: 16.9e6 })
  statistics.recordResponse(request, InferenceResponse.of([], { isFinal: false }), 0)
  Object.assign(request, { responseCount: 1, endNs: 90e6 })
  statistics.recordResponse(request, InferenceResponse.of([]), 16.9e6)
  const leave = ledger.open(streaming, new Map(), statistics)
  const { text } = pageOf(t, { hasFirstResponses: true }, ledger)
  const lines = text()
    .split('\n')
    .filter((line) => line.startsWith('nv_inference_first_response_histogram_ms'))
  assert.deepEqual(lines, [
    'nv_inference_first_response_histogram_ms_count{model="stream",version="2"} 1',
    'nv_inference_first_response_histogram_ms_sum{model="stream",version="2"} 15',
    'nv_inference_first_response_histogram_ms_bucket{model="stream",version="2",le="10"} 0',
    'nv_inference_first_response_histogram_ms_bucket{model="stream",version="2",le="20"} 1',
    'nv_inference_first_response_histogram_ms_bucket{model="stream",version="2",le="+Inf"} 1',
  ])
  ledger.open(streaming, new Map(), new Statistics({ hasResponseStatistics: false, firstResponseBounds: [10, 20] }))
  leave(0)
  assert.ok(text().includes('nv_inference_first_response_histogram_ms_count{model="stream",version="2"} 1\n'))
})

test('OpenMetrics has the same series under the same names, with units, float bounds and an end', (t) => {
  const { text, custom } = pageOf(t, { hasSummaries: true, hasOwnFamilies: true })
  custom.createFamily('orders_total', 'Orders "taken"', 'counter')
  custom.increment(custom.createMetric('orders_total', new Map(), null), 2)
  const page = text(openMetricsText)
  for (const part of [
    '# TYPE nv_inference_count unknown\n# HELP nv_inference_count Number',
    `\nnv_inference_count{${labels}} 3\n`,
    '# TYPE galatea_worker_restarts counter\n# HELP galatea_worker_restarts How',
    `\ngalatea_worker_restarts_total{${labels}} 3\n`,
    '# TYPE galatea_instance_busy_seconds counter\n# UNIT galatea_instance_busy_seconds seconds\n',
    '# TYPE galatea_request_duration_seconds histogram\n# UNIT galatea_request_duration_seconds seconds\n',
    `\ngalatea_batch_size_bucket{${labels},le="4.0"} 1\n`,
    '# TYPE orders counter\n# HELP orders Orders \\"taken\\"\norders_total 2\n',
  ]) {
    assert.ok(page.includes(part), part)
  }
  assert.ok(page.endsWith('\n# EOF\n'))
  const names = (all: string): Set<string> =>
    new Set([...all.matchAll(/^([a-z_0-9]+)(?:\{| )/gm)].map((match) => match[1] ?? ''))
  assert.deepEqual(names(page), names(text()))
})

test('a bucket shows the trace of its last request, in OpenMetrics alone', (t) => {
  const ledger = new ModelLedger()
  const statistics = new Statistics({ hasResponseStatistics: false })
  const respond = (traceId: string, tookNs: number): void => {
    const request = new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined })
    Object.assign(request, { traceId, receivedNs: 1, queueStartNs: 1, computeStartNs: 1, endNs: 1 + tookNs })
    statistics.recordResponse(request, InferenceResponse.of([]), 0)
  }
  respond('a'.repeat(32), 2e6)
  respond('b'.repeat(32), 2.1e6)
  respond('', 2.2e6)
  ledger.open({ ...version, name: 'traced' }, new Map(), statistics)
  const { text } = pageOf(t, { hasOwnFamilies: true }, ledger)
  const line = /^galatea_request_duration_seconds_bucket\{model="traced",version="1",le="0.0025"\} .*$/m
  const exemplar = new RegExp(`3 # \\{trace_id="${'b'.repeat(32)}"\\} 0\\.0021 [\\d.-]+$`)
  assert.match(line.exec(text(openMetricsText))?.[0] ?? '', exemplar)
  assert.match(line.exec(text())?.[0] ?? '', / 3$/)
})

test('a model whose answers are kept has families of its own, and no summary of requests', (t) => {
  const ledger = new ModelLedger()
  const statistics = new Statistics({ hasResponseStatistics: false, hasSummaries: true, hasCache: true })
  for (const isCacheHit of [false, true, true]) {
    const request = new InferenceRequest({ modelName: 'kept', inputs: [], sink: () => undefined })
    Object.assign(request, { receivedNs: 1, queueStartNs: 1, computeStartNs: 1, endNs: 1e6, isCacheHit, cacheNs: 5000 })
    statistics.recordResponse(request, InferenceResponse.of([]), 0)
  }
  ledger.open({ ...version, name: 'kept' }, new Map(), statistics)
  const page = pageOf(t, { hasSummaries: true }, ledger).text()
  const kept = 'model="kept",version="1"'
  for (const line of [
    `nv_cache_num_hits_per_model{${kept}} 2`,
    `nv_cache_hit_duration_per_model{${kept}} 10`,
    `nv_cache_num_misses_per_model{${kept}} 1`,
    `nv_cache_miss_duration_per_model{${kept}} 5`,
    `nv_cache_hit_summary_per_model_count{${kept}} 2`,
    `nv_cache_miss_summary_per_model_sum{${kept}} 5`,
    `nv_inference_queue_summary_us_count{${kept}} 3`,
    `nv_inference_compute_infer_summary_us_count{${kept}} 1`,
  ]) {
    assert.ok(page.includes(`${line}\n`), line)
  }
  assert.ok(!page.includes(`nv_inference_request_summary_us_count{${kept}}`))
  assert.ok(!page.includes('nv_cache_num_hits_per_model{_team'), 'the others have none')
})

test('nothing wakes the process before the page is asked for; then the delay of the loop is probed', async (t) => {
  const turnsOf = async (ms: number): Promise<number> => {
    const before = performance.nodeTiming.uvMetricsInfo.loopCount
    await pause(ms)
    return performance.nodeTiming.uvMetricsInfo.loopCount - before
  }
  const { text } = pageOf(t, { hasOwnFamilies: true })
  await turnsOf(50)
  const unasked = await turnsOf(400)
  assert.ok(unasked < 10, `${unasked} turns of the loop in 400 ms`)
  const first = text()
  assert.match(first, /galatea_event_loop_delay_p99_seconds 0\n/)
  // A probe that comes late is one turn as well, so a busy machine has fewer of them.
  const asked = await turnsOf(1000)
  assert.ok(asked > 3, `${asked} turns of the loop in a second`)
})

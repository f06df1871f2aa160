import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { ManualClock } from '../base/clock.ts'
import { Batch } from '../model/batch.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { CustomMetricRegistry } from './custom-metrics.ts'
import { MetricsPage } from './metrics-page.ts'
import type { FamilySettings } from './model-families.ts'
import { ModelLedger } from './model-ledger.ts'
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

function pageOf(t: TestContext, settings: Partial<FamilySettings> = {}, ledger = new ModelLedger()) {
  const all = { ...plain, ...settings }
  const custom = new CustomMetricRegistry()
  const version = { name: 'm', version: '1', pendingCount: 4, inFlightCount: 5, loadSeconds: 1.5 }
  const leave = ledger.open(version, new Map([['team', 'blue']]), worked(all.hasSummaries))
  const customFamilies = () => custom.families()
  const page = new MetricsPage(
    { clock: new ManualClock(), ledger, host: null, gpus: () => [], customFamilies, isReady: () => true },
    all,
  )
  t.after(() => page.close())
  return { text: () => [...page.pieces()].join(''), custom, leave }
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
    `nv_model_load_duration_secs{${labels}} 1.5`,
    'galatea_ready 1',
  ]) {
    assert.ok(text.includes(`${line}\n`), line)
  }
})

test('the series of a version that is gone are gone, its failures excepted', (t) => {
  const { text, leave } = pageOf(t, { hasOwnFamilies: true })
  leave()
  const families = [...text().matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1] ?? '')
  assert.deepEqual(
    families.filter((name) => name.startsWith('nv_inference') || name.includes('duration')),
    ['nv_inference_request_failure'],
  )
})

test('the histogram of first responses is there for models that have it, over their own bounds', (t) => {
  const ledger = new ModelLedger({ hasSummaries: false, hasFirstResponses: true })
  const version = { name: 'stream', version: '2', pendingCount: 0, inFlightCount: 0, loadSeconds: 0 }
  const statistics = new Statistics({ hasResponseStatistics: false, firstResponseBounds: [10, 20] })
  const request = new InferenceRequest({ modelName: 'stream', inputs: [], sink: () => undefined })
  Object.assign(request, { receivedNs: 1e6, endNs: 16.9e6 })
  statistics.recordResponse(request, InferenceResponse.of([], { isFinal: false }), 0)
  Object.assign(request, { responseCount: 1, endNs: 90e6 })
  statistics.recordResponse(request, InferenceResponse.of([]), 16.9e6)
  const leave = ledger.open(version, new Map(), statistics)
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
  ledger.open(version, new Map(), new Statistics({ hasResponseStatistics: false, firstResponseBounds: [10, 20] }))
  leave()
  assert.ok(text().includes('nv_inference_first_response_histogram_ms_count{model="stream",version="2"} 1\n'))
})

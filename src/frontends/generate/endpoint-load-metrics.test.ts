import assert from 'node:assert/strict'
import { test } from 'node:test'

import { endpointLoadMetrics, type LoadMetricSource } from './endpoint-load-metrics.ts'

const sourceOf = (blocks: Record<string, number>, name = 'nv_trt_llm_kv_cache_block_metrics'): LoadMetricSource => ({
  families: () => [
    {
      name,
      series: new Map(
        Object.entries(blocks).map(([kind, value]) => [
          kind,
          {
            labels: [
              ['kv_cache_block_type', kind],
              ['model', 'llm'],
            ] as const,
            value,
          },
        ]),
      ),
    },
  ],
})

const whole = { tokens_per: 64, used: 1, max: 4, free: 3 }

test('the cache is told as text or as JSON', () => {
  const text = 'TEXT named_metrics.kv_cache_utilization=0.250000, named_metrics.max_token_capacity=256'
  assert.equal(endpointLoadMetrics('text', sourceOf(whole)), text)
  const json = 'JSON {"named_metrics":{"kv_cache_utilization":0.25,"max_token_capacity":256}}'
  assert.equal(endpointLoadMetrics('json', sourceOf(whole)), json)
})

test('a model that counts tokens is told as well', () => {
  const series = (value: number): ReadonlyMap<string, { labels: []; value: number }> =>
    new Map([['', { labels: [], value }]])
  const families = [
    { name: 'galatea_llm_kv_cells_used', series: series(64) },
    { name: 'galatea_llm_kv_cells', series: series(256) },
  ]
  const text = 'TEXT named_metrics.kv_cache_utilization=0.250000, named_metrics.max_token_capacity=256'
  assert.equal(endpointLoadMetrics('text', { families: () => families }), text)
})

test('an unknown format, metrics that are not there and an empty cache give no header', () => {
  assert.equal(endpointLoadMetrics('xml', sourceOf(whole)), null)
  assert.equal(endpointLoadMetrics('text', sourceOf(whole, 'other')), null)
  assert.equal(endpointLoadMetrics('text', sourceOf({ used: 1, max: 4 })), null)
  assert.equal(endpointLoadMetrics('text', sourceOf({ ...whole, max: 0 })), null)
})

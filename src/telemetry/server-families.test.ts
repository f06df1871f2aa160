import assert from 'node:assert/strict'
import test from 'node:test'
import { TrafficMeter } from '../transport/traffic-meter.ts'
import { RefusalCounts } from '../model/refusal-counts.ts'
import type { ResponseCache } from '../model/response-cache.ts'
import { prometheusText } from './prometheus-text.ts'
import { serverText, type ServerSources } from './server-families.ts'

const quiet: ServerSources = {
  host: null,
  cache: null,
  clients: { limitBytes: 100, requestBytes: 3, answerBytes: 2, inflatedBytes: 1, refusedCount: 0 },
  pinned: null,
  slots: { limit: 10, refusedCount: 0 },
  traffic: [{ protocol: 'http', meter: new TrafficMeter() }],
  refusals: new RefusalCounts(),
  loopDelay: null,
  isReady: () => true,
  notReady: () => [],
  spans: null,
  accessLog: null,
}

test('without our own families and without a cache there is only pinned memory', () => {
  const families = [...serverText(prometheusText, quiet).matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1])
  assert.deepEqual(families, ['nv_pinned_memory_pool_total_bytes', 'nv_pinned_memory_pool_used_bytes'])
})

test('beside a GPU the pool of pinned memory tells its size and what is taken of it', () => {
  const text = serverText(prometheusText, { ...quiet, pinned: { limitBytes: 1000, usedBytes: 64 } })
  assert.match(text, /^nv_pinned_memory_pool_total_bytes 1000$/m)
  assert.match(text, /^nv_pinned_memory_pool_used_bytes 64$/m)
})

test('the cache tells what it holds and how long it took, in whole microseconds', () => {
  const figures = { maxBytes: 1000, byteSize: 250, entryCount: 3, lookupCount: 10, hitCount: 4, evictionCount: 2 }
  const timings = { lookupNs: 12_345, insertNs: 6_999 }
  const cache = { ...figures, timings } as unknown as ResponseCache
  const text = serverText(prometheusText, { ...quiet, cache })
  const values = [...text.matchAll(/^(nv_cache_\S+) (\S+)$/gm)].map((match) => [match[1], Number(match[2])])
  assert.deepEqual(Object.fromEntries(values), {
    nv_cache_util: 0.25,
    nv_cache_num_entries: 3,
    nv_cache_num_hits: 4,
    nv_cache_num_misses: 6,
    nv_cache_num_lookups: 10,
    nv_cache_num_evictions: 2,
    nv_cache_lookup_duration: 12,
    nv_cache_insertion_duration: 6,
  })
})

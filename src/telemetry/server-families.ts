// Every metric family that is of the server and not of a model: the page prints this table and the reference is made from it.

import { performance, type ELDHistogram } from 'node:perf_hooks'
import { residentBytes } from '../base/resident-bytes.ts'
import { refusalReasons, type RefusalCounts } from '../model/refusal-counts.ts'
import type { LoadFigures } from './pressure-meter.ts'
import type { ResponseCache } from '../model/response-cache.ts'
import type { HostMetrics } from './host-metrics.ts'
import { sampleLine, type MetricsText } from './metrics-text.ts'

/** What became of the spans of traces. */
export type SpanFigures = {
  readonly exportedCount: number
  readonly overflowCount: number
  readonly failedCount: number
}

/** What the connections of a port count. */
type TrafficFigures = {
  readonly connectionCount: number
  totals(): { readonly bytesRead: number; readonly bytesWritten: number }
}

/** One port that clients speak to. */
export type TrafficSource = {
  readonly protocol: string
  readonly meter: TrafficFigures
}

/** What is held for clients. */
type ClientFigures = {
  readonly limitBytes: number
  readonly requestBytes: number
  readonly answerBytes: number
  readonly inflatedBytes: number
  readonly refusedCount: number
}

export type ServerSources = {
  readonly clients: ClientFigures
  /** Memory of the host that GPUs copy from and to; null: there is no GPU. */
  readonly pinned: { readonly limitBytes: number; readonly usedBytes: number } | null
  readonly slots: { readonly limit: number; readonly refusedCount: number }
  /** Null: `--allow-cpu-metrics=false`. */
  readonly host: HostMetrics | null
  /** Null without a response cache. */
  readonly cache: ResponseCache | null
  readonly traffic: readonly TrafficSource[]
  readonly refusals: RefusalCounts
  /** Null: `--galatea-metrics=false`. */
  readonly loopDelay: ELDHistogram | null
  /** Null where no spans are made. */
  readonly spans: SpanFigures | null
  /** Null: `--access-log` was not given. */
  readonly accessLog: { readonly droppedCount: number } | null
  /** Null without a file: then no entry can be lost. */
  readonly audit?: { readonly lostLines: number | null }
  /** How loaded the server is; null: nothing is measured yet. */
  readonly load?: () => LoadFigures | null
  /** The answer of `/v2/health/ready`. */
  readonly isReady: () => boolean
  /** Every reason there may be, and whether it holds now. */
  readonly notReady: () => readonly (readonly [reason: string, holds: boolean])[]
}

type Sample = readonly [labels: string, value: number]

type ServerFamily = {
  readonly name: string
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly label: string
  /** When the family is there, in words, for the reference; '' for always. */
  readonly when: string
  /** Without lines the family is not on the page. */
  readonly read: (sources: ServerSources) => readonly Sample[]
}

/** `read` says null where the family is not there, and a number for a family without labels. */
const family = (
  name: string,
  type: 'counter' | 'gauge',
  help: string,
  read: (sources: ServerSources) => number | readonly Sample[] | null,
  { label = '', when = '' } = {},
): ServerFamily => ({
  name,
  type,
  help,
  label,
  when,
  read: (sources) => {
    const value = read(sources) ?? []
    return typeof value === 'number' ? [['', value]] : value
  },
})

const cacheGauge = (name: string, help: string, read: (cache: ResponseCache) => number): ServerFamily =>
  family(name, 'gauge', help, ({ cache }) => (cache === null ? null : read(cache)), { when: 'with `--cache-config`' })

const hostGauge = (name: string, help: string, read: (host: HostMetrics) => number): ServerFamily =>
  family(name, 'gauge', help, ({ host }) => (host === null ? null : read(host)))

/** A family that Triton does not have. */
const own = (
  name: string,
  type: 'counter' | 'gauge',
  help: string,
  read: (sources: ServerSources, loopDelay: ELDHistogram) => number | readonly Sample[],
  label = '',
): ServerFamily =>
  family(name, type, help, (sources) => (sources.loopDelay === null ? null : read(sources, sources.loopDelay)), {
    label,
  })

const ofSpans = { when: 'with `--trace-config mode=opentelemetry`' }

const byProtocol = ({ traffic }: ServerSources, read: (meter: TrafficFigures) => number): readonly Sample[] =>
  traffic.map(({ protocol, meter }) => [`protocol="${protocol}"`, read(meter)])

/** No line for a limit that is none. */
const finite = (limit: number): readonly Sample[] => (Number.isFinite(limit) ? [['', limit]] : [])

/** How often the loop is probed. */
export const loopProbeMs = 20

export const serverFamilies: readonly ServerFamily[] = [
  // Without a GPU there is no such pool.
  family(
    'nv_pinned_memory_pool_total_bytes',
    'gauge',
    'Pinned memory pool total memory size, in bytes',
    (sources) => sources.pinned?.limitBytes ?? 0,
  ),
  family(
    'nv_pinned_memory_pool_used_bytes',
    'gauge',
    'Pinned memory pool used memory size, in bytes',
    (sources) => sources.pinned?.usedBytes ?? 0,
  ),
  cacheGauge('nv_cache_util', 'Cache utilization [0.0 - 1.0]', ({ byteSize, maxBytes }) =>
    maxBytes === 0 ? 0 : byteSize / maxBytes,
  ),
  cacheGauge('nv_cache_num_entries', 'Number of responses stored in response cache', ({ entryCount }) => entryCount),
  cacheGauge('nv_cache_num_hits', 'Number of cache hits in response cache', ({ hitCount }) => hitCount),
  cacheGauge(
    'nv_cache_num_misses',
    'Number of cache misses in response cache',
    ({ lookupCount, hitCount }) => lookupCount - hitCount,
  ),
  cacheGauge('nv_cache_num_lookups', 'Number of cache lookups in response cache', ({ lookupCount }) => lookupCount),
  cacheGauge(
    'nv_cache_num_evictions',
    'Number of cache evictions in response cache',
    ({ evictionCount }) => evictionCount,
  ),
  cacheGauge('nv_cache_lookup_duration', 'Total cache lookup duration (hit and miss), in microseconds', (cache) =>
    Math.floor(cache.timings.lookupNs / 1000),
  ),
  cacheGauge('nv_cache_insertion_duration', 'Total cache insertion duration, in microseconds', (cache) =>
    Math.floor(cache.timings.insertNs / 1000),
  ),
  hostGauge('nv_cpu_utilization', 'CPU utilization rate [0.0 - 1.0]', (host) => host.cpuUtilization),
  hostGauge('nv_cpu_memory_total_bytes', 'CPU total memory (RAM), in bytes', (host) => host.memory.totalBytes),
  hostGauge('nv_cpu_memory_used_bytes', 'CPU used memory (RAM), in bytes', (host) => host.memory.usedBytes),
  own('galatea_ready', 'gauge', '1 when the server calls itself ready, else 0', ({ isReady }) => (isReady() ? 1 : 0)),
  own(
    'galatea_not_ready',
    'gauge',
    'Why the server does not call itself ready: 1 for each reason that holds',
    ({ notReady }) => notReady().map(([reason, holds]) => [`reason="${reason}"`, holds ? 1 : 0]),
    'reason',
  ),
  own(
    'galatea_server_pressure',
    'gauge',
    'The largest of: galatea_pressure of all models, the share of the main thread that is busy, the share of memory where it is above 0.9. From the second page on',
    ({ load }) => load?.()?.server ?? [],
  ),
  own(
    'galatea_requests_refused_total',
    'counter',
    'Inference requests that ended before a model took them',
    ({ refusals }) => refusalReasons.map((reason) => [`reason="${reason}"`, refusals.counts[reason]]),
    'reason',
  ),
  family(
    'galatea_audit_log_lost_lines_total',
    'counter',
    'Changes of models that could not be written to the audit log',
    ({ audit }) => audit?.lostLines ?? null,
    { when: 'with `--audit-log`' },
  ),
  family(
    'galatea_trace_spans_exported_total',
    'counter',
    'Spans that the trace collector took',
    ({ spans }) => spans?.exportedCount ?? null,
    ofSpans,
  ),
  family(
    'galatea_trace_spans_dropped_total',
    'counter',
    'Spans that were lost: the queue was full, or the collector did not take them',
    ({ spans }) =>
      spans && [
        ['reason="queue_full"', spans.overflowCount],
        ['reason="export_failed"', spans.failedCount],
      ],
    { ...ofSpans, label: 'reason' },
  ),
  family(
    'galatea_access_log_dropped_total',
    'counter',
    'Lines of the access log that were dropped because they could not be written fast enough',
    ({ accessLog }) => accessLog?.droppedCount ?? null,
    { when: 'with `--access-log`' },
  ),
  own(
    'galatea_received_bytes_total',
    'counter',
    'Bytes that clients sent, as they went over the wire',
    (sources) => byProtocol(sources, (meter) => meter.totals().bytesRead),
    'protocol',
  ),
  own(
    'galatea_sent_bytes_total',
    'counter',
    'Bytes that were sent to clients, as they went over the wire',
    (sources) => byProtocol(sources, (meter) => meter.totals().bytesWritten),
    'protocol',
  ),
  own(
    'galatea_connections',
    'gauge',
    'Connections of clients that are open',
    (sources) => byProtocol(sources, (meter) => meter.connectionCount),
    'protocol',
  ),
  own('galatea_connections_limit', 'gauge', 'Connections that all ports may hold together', ({ slots }) =>
    finite(slots.limit),
  ),
  own(
    'galatea_connections_refused_total',
    'counter',
    'Connections that were closed at once because too few descriptors were left',
    ({ slots }) => slots.refusedCount,
  ),
  own(
    'galatea_client_memory_bytes',
    'gauge',
    'Memory that is held for clients: requests without an answer, the part of these that was inflated, answers that are not read',
    ({ clients: { requestBytes, inflatedBytes, answerBytes } }) => [
      ['kind="requests"', requestBytes],
      ['kind="inflated"', inflatedBytes],
      ['kind="answers"', answerBytes],
    ],
    'kind',
  ),
  own('galatea_client_memory_limit_bytes', 'gauge', 'What may be held for clients', ({ clients }) =>
    finite(clients.limitBytes),
  ),
  own(
    'galatea_client_memory_refused_total',
    'counter',
    'Requests and answers that were refused because too much was held for clients',
    ({ clients }) => clients.refusedCount,
  ),
  own(
    'galatea_event_loop_delay_p99_seconds',
    'gauge',
    'How late the main thread was, 99th percentile since the page was last asked for; 0 on the first page',
    (_sources, loopDelay) => {
      // The time between two probes is measured. For a loop that is never late it is the interval of the probes.
      const lateNs = Math.max(0, loopDelay.percentile(99) - loopProbeMs * 1e6)
      loopDelay.reset()
      return lateNs / 1e9
    },
  ),
  own(
    'galatea_event_loop_busy_seconds_total',
    'counter',
    'Time in which the main thread had something to do',
    () => performance.eventLoopUtilization().active / 1e3,
  ),
  own('process_cpu_seconds_total', 'counter', 'CPU time of the server process, all its threads, in seconds', () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }),
  own('process_resident_memory_bytes', 'gauge', 'Resident memory of the server process, in bytes', () =>
    residentBytes(),
  ),
  own('process_start_time_seconds', 'gauge', 'When the server process started, in seconds since 1970', () =>
    Math.round(performance.timeOrigin / 1e3),
  ),
]

export function serverText(text: MetricsText, sources: ServerSources): string {
  let all = ''
  for (const { name, type, help, read } of serverFamilies) {
    const samples = read(sources)
    if (samples.length === 0) continue
    all += text.familyHead(name, help, type)
    for (const [labels, value] of samples) all += sampleLine(text, name, labels, value)
  }
  return all
}

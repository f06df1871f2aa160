// The last requests that were traced, whatever else happens to their records.

import type { Span } from './otlp/span.ts'

/** One stage of a request. Times are milliseconds from the beginning of the trace. */
type ShownSpan = {
  readonly name: string
  readonly model: string
  readonly depth: number
  readonly start_ms: number
  readonly duration_ms: number
}

type ShownTrace = {
  readonly id: string
  readonly model: string
  readonly version: string
  readonly request_id: string
  /** Milliseconds since 1970 when the trace ended. */
  readonly ended: number
  readonly duration_ms: number
  readonly spans: readonly ShownSpan[]
}

type Kept =
  | { readonly endedMs: number; readonly records: readonly string[] }
  | { readonly endedMs: number; readonly spans: Span[] }

const mostTraces = 200
/** An ensemble has records of each step, and a stream a span for each answer of a step. */
const mostRecords = 500

export class TraceHistory {
  readonly #wallMs: () => number
  readonly #kept: Kept[] = []
  readonly #byTraceId = new Map<string, Span[]>()

  constructor(wallMs: () => number) {
    this.#wallMs = wallMs
  }

  /**
   * The records of one request as Triton writes them. Those with tensors are not kept, and of a moment that comes again with every
   * answer of a stream the first alone: no more is shown, and every look at the list reads all that is kept.
   */
  addRecords(records: readonly string[]): void {
    const seen = new Set<string>()
    const times: string[] = []
    for (const record of records) {
      if (record.includes('"activity":"TENSOR_')) continue
      const end = record.indexOf(',"ns":')
      const moment = end < 0 ? record : record.slice(0, end)
      if (seen.has(moment)) continue
      seen.add(moment)
      times.push(record)
      if (times.length === mostRecords) break
    }
    if (times.length > 0) this.#push({ endedMs: this.#wallMs(), records: times })
  }

  addSpan(span: Span): void {
    const known = this.#byTraceId.get(span.traceId)
    if (known !== undefined) {
      if (known.length < mostRecords) known.push(span)
      return
    }
    const spans = [span]
    this.#byTraceId.set(span.traceId, spans)
    this.#push({ endedMs: this.#wallMs(), spans })
  }

  /** Newest first. */
  list(model: string, leastMs: number): ShownTrace[] {
    return this.#kept
      .map((kept, i) =>
        'records' in kept ? ofRecords(kept.records, kept.endedMs, i) : ofSpans(kept.spans, kept.endedMs),
      )
      .filter((trace) => trace !== null)
      .filter((trace) => (model === '' || trace.model === model) && trace.duration_ms >= leastMs)
      .toReversed()
  }

  #push(kept: Kept): void {
    this.#kept.push(kept)
    if (this.#kept.length <= mostTraces) return
    const gone = this.#kept.shift()
    if (gone !== undefined && 'spans' in gone) this.#byTraceId.delete(gone.spans[0]?.traceId ?? '')
  }
}

type Record_ = {
  readonly id: number
  readonly parent_id?: number
  readonly model_name?: string
  readonly model_version?: number
  readonly request_id?: string
  readonly timestamps?: readonly { readonly name: string; readonly ns: number }[]
}

type Part = {
  id: number
  parent: number
  model: string
  version: string
  requestId: string
  stamps: Map<string, number>
}

/** From stamp to stamp; the first that the trace has of each side counts. */
const stages: readonly (readonly [name: string, from: readonly string[], to: readonly string[]])[] = [
  ['request', ['HTTP_RECV_START', 'GRPC_WAITREAD_START', 'REQUEST_START'], ['HTTP_SEND_END', 'GRPC_SEND_END', 'REQUEST_END']], // prettier-ignore
  ['read', ['HTTP_RECV_START', 'GRPC_WAITREAD_START'], ['REQUEST_START']],
  ['queue', ['QUEUE_START'], ['COMPUTE_START']],
  ['input', ['COMPUTE_START'], ['COMPUTE_INPUT_END']],
  ['compute', ['COMPUTE_INPUT_END'], ['COMPUTE_OUTPUT_START']],
  ['output', ['COMPUTE_OUTPUT_START'], ['COMPUTE_END']],
  ['send', ['REQUEST_END'], ['HTTP_SEND_END', 'GRPC_SEND_END']],
]

function ofRecords(records: readonly string[], endedMs: number, index: number): ShownTrace | null {
  const parts = new Map<number, Part>()
  for (const text of records) {
    const record = JSON.parse(text) as Record_
    let part = parts.get(record.id)
    if (part === undefined) {
      part = { id: record.id, parent: 0, model: '', version: '', requestId: '', stamps: new Map() }
      parts.set(record.id, part)
    }
    if (record.model_name !== undefined) {
      Object.assign(part, { model: record.model_name, version: String(record.model_version ?? ''), parent: record.parent_id ?? 0, requestId: record.request_id ?? '' }) // prettier-ignore
    }
    for (const { name, ns } of record.timestamps ?? []) if (!part.stamps.has(name)) part.stamps.set(name, ns)
  }
  const root = [...parts.values()].find(({ parent }) => parent === 0)
  if (root === undefined) return null
  const zero = Math.min(...[...parts.values()].flatMap(({ stamps }) => [...stamps.values()]))
  const spans = [...parts.values()].flatMap((part) => spansOf(part, zero, depthOf(part, parts)))
  spans.sort((a, b) => a.start_ms - b.start_ms || b.duration_ms - a.duration_ms)
  return {
    id: `${root.id}-${index}`,
    model: root.model,
    version: root.version,
    request_id: root.requestId,
    ended: endedMs,
    duration_ms: Math.max(0, ...spans.map(({ start_ms, duration_ms }) => start_ms + duration_ms)),
    spans,
  }
}

function spansOf({ model, stamps }: Part, zeroNs: number, depth: number): ShownSpan[] {
  const first = (names: readonly string[]): number | undefined =>
    names.map((name) => stamps.get(name)).find((ns) => ns !== undefined)
  return stages.flatMap(([name, from, to]) => {
    const [start, end] = [first(from), first(to)]
    if (start === undefined || end === undefined || end < start) return []
    const isWhole = name === 'request'
    return [{ name: isWhole ? model : name, model, depth: isWhole ? depth * 2 : depth * 2 + 1, ...times(start - zeroNs, end - start) }] // prettier-ignore
  })
}

function depthOf(part: Part, parts: ReadonlyMap<number, Part>): number {
  let depth = 0
  for (let at = parts.get(part.parent); at !== undefined && depth < parts.size; at = parts.get(at.parent)) depth++
  return depth
}

function ofSpans(spans: readonly Span[], endedMs: number): ShownTrace | null {
  const [first] = spans
  if (first === undefined) return null
  const byId = new Map(spans.map((span) => [span.spanId, span]))
  const depth = (span: Span): number => {
    let steps = 0
    for (let at = byId.get(span.parentSpanId); at !== undefined && steps < spans.length; at = byId.get(at.parentSpanId)) steps++ // prettier-ignore
    return steps
  }
  const zero = Math.min(...spans.map(({ startNs }) => startNs))
  const attribute = (key: string): string => {
    for (const { attributes } of spans) for (const [name, value] of attributes) if (name === key) return String(value)
    return ''
  }
  const model = attribute('triton.model_name')
  const shown = spans
    .map((span) => ({
      name: span.name,
      model,
      depth: depth(span),
      ...times(span.startNs - zero, span.endNs - span.startNs),
    })) // prettier-ignore
    .sort((a, b) => a.start_ms - b.start_ms || a.depth - b.depth)
  return {
    id: first.traceId,
    model,
    version: attribute('triton.model_version'),
    request_id: attribute('triton.request_id'),
    ended: endedMs,
    duration_ms: Math.max(...shown.map(({ start_ms, duration_ms }) => start_ms + duration_ms)),
    spans: shown,
  }
}

const times = (startNs: number, durationNs: number): { start_ms: number; duration_ms: number } => ({
  start_ms: Math.round(startNs / 1e3) / 1e3,
  duration_ms: Math.round(durationNs / 1e3) / 1e3,
})

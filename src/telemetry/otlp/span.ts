// One span as it goes to a collector.

/** Ids are lower-case hexadecimal: 32 digits of a trace, 16 of a span. */
export type Span = {
  readonly traceId: string
  readonly spanId: string
  /** '' for the first of a trace. */
  readonly parentSpanId: string
  readonly traceState: string
  readonly name: string
  /** Nanoseconds since 1970 at the zero of the monotonic clock. The times below are on the monotonic clock. */
  readonly originNs: bigint
  readonly startNs: number
  readonly endNs: number
  readonly attributes: readonly SpanAttribute[]
  readonly events: readonly SpanEvent[]
  /** Null when no error is known. */
  readonly error: string | null
}

export type SpanAttribute = readonly [key: string, value: string | number]
export type SpanEvent = readonly [name: string, ns: number]

/** Takes spans to a collector, or drops them; never throws and never waits. */
export interface SpanSink {
  add(span: Span): void
}

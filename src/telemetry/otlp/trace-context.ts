// W3C Trace Context: the headers that say which trace a request is part of.

import { randomFillSync } from 'node:crypto'
import type { TraceOrigin } from '../../model/trace-stamp.ts'

type ParentContext = {
  readonly traceId: string
  readonly spanId: string
  /** True when the caller records the trace too. */
  readonly isSampled: boolean
  readonly traceState: string
}

// Later versions of the header have the same first four fields, and may have more.
const pattern = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const zeros = /^0+$/
/** The standard asks every program to pass on at least this many characters. */
const maxStateChars = 512
const visible = /^[\x20-\x7e]*$/

/** Null when the header is not valid. Then the request begins a trace of its own, as the standard says. */
export function parseTraceOrigin({ traceparent, tracestate }: TraceOrigin): ParentContext | null {
  const match = pattern.exec(traceparent.trim())
  if (match === null) return null
  const [, version, traceId = '', spanId = '', flags = '', rest] = match
  if (zeros.test(traceId) || zeros.test(spanId)) return null
  if (version === '00' && rest !== undefined) return null
  const isKept = tracestate.length <= maxStateChars && visible.test(tracestate)
  return { traceId, spanId, isSampled: (parseInt(flags, 16) & 1) !== 0, traceState: isKept ? tracestate : '' }
}

export const encodeTraceparent = (traceId: string, spanId: string): string => `00-${traceId}-${spanId}-01`

/** Random bytes for some hundred ids at a time: asking for each costs more than the rest of a span. */
const pool = Buffer.alloc(4096)
let used = pool.length

function randomHex(bytes: number): string {
  for (;;) {
    if (used + bytes > pool.length) {
      randomFillSync(pool)
      used = 0
    }
    const id = pool.toString('hex', used, used + bytes)
    used += bytes
    if (!zeros.test(id)) return id
  }
}

export const createTraceId = (): string => randomHex(16)
export const createSpanId = (): string => randomHex(8)

import type { TraceOrigin } from '../../model/trace-stamp.ts'
import { headerOf } from '../../transport/http1/http-message.ts'

/** The trace that the client says its request is part of; null where it says none. */
export function traceOriginOf(headers: readonly string[]): TraceOrigin | null {
  const traceparent = headerOf(headers, 'traceparent')
  return traceparent === null ? null : { traceparent, tracestate: headerOf(headers, 'tracestate') ?? '' }
}

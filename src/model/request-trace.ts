// What is written down about one request that was picked for tracing. Types only.

import type { InferenceRequest } from './inference-request.ts'
import type { InferenceResponse } from './inference-response.ts'

/** A moment on the monotonic clock, by Triton's name for it. */
export type TraceStamp = readonly [name: string, ns: number]

/** Where a request comes from, in the words of W3C Trace Context; as the client sent it, so it may be nonsense. */
export type TraceOrigin = { readonly traceparent: string; readonly tracestate: string }

export interface RequestTrace {
  /** What a model passes on with calls of its own; null where there is no trace that others could join. */
  readonly context: TraceOrigin | null
  /** The request was checked and is handed to its scheduler. `isComposed`: other models compute for it. */
  admitted(request: InferenceRequest, version: string, isComposed: boolean): void
  /** Before the front end sees it; its outputs are still in memory. */
  responded(request: InferenceRequest, response: InferenceResponse): void
  stamp(name: string, ns: number): void
  /** `child` is made on behalf of this request, as a step of an ensemble is: it becomes part of the trace. */
  beginChild(child: InferenceRequest): void
  /** Something of the request is still to be stamped: every `retain` needs its `release`, and the last one ends the trace. */
  retain(): void
  release(): void
}

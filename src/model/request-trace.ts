// What is written down about one request that was picked for tracing. Types only.

import type { InferenceRequest } from './inference-request.ts'
import type { InferenceResponse } from './inference-response.ts'

/** A moment on the monotonic clock, by Triton's name for it. */
export type TraceStamp = readonly [name: string, ns: number]

export interface RequestTrace {
  /** The request was checked and is handed to its scheduler. */
  admitted(request: InferenceRequest, version: string): void
  /** Before the front end sees it; its outputs are still in memory. */
  responded(request: InferenceRequest, response: InferenceResponse): void
  stamp(name: string, ns: number): void
  /** Something of the request is still to be stamped: every `retain` needs its `release`, and the last one ends the trace. */
  retain(): void
  release(): void
}

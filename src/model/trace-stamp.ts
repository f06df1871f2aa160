/** A moment on the monotonic clock, with Triton's name for the moment. */
export type TraceStamp = readonly [name: string, ns: number]

/** The W3C Trace Context of a request, as the client sent it. The text is not checked. */
export type TraceOrigin = { readonly traceparent: string; readonly tracestate: string }

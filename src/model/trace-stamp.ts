/** A moment on the monotonic clock, by Triton's name for it. */
export type TraceStamp = readonly [name: string, ns: number]

/** Where a request comes from, in the words of W3C Trace Context; as the client sent it, so it may be nonsense. */
export type TraceOrigin = { readonly traceparent: string; readonly tracestate: string }

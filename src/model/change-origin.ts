/**
 * Why a model was loaded or unloaded: a client asked (http, grpc), a model did, the embedding program did, the server was
 * started, files changed (poll), a request came for a model that was not in memory (demand), or none came (residency).
 */
export type ChangeCause = 'http' | 'grpc' | 'model' | 'embedding' | 'start' | 'poll' | 'demand' | 'residency'

/** Who asked for a change. What is not known is ''. */
export type ChangeOrigin = {
  readonly by: ChangeCause
  /** Of the client. */
  readonly address: string
  /** Name of the header that opened a restricted API; never its value. */
  readonly key: string
  /** What the client calls its request: `x-request-id`. */
  readonly requestId: string
  /** Of the client's distributed trace: `traceparent`. */
  readonly traceId: string
  /** The model whose change brought this one along: an ensemble and its parts. */
  readonly because: string
}

const nobody = { address: '', key: '', requestId: '', traceId: '', because: '' }

export const changeOrigin = (by: ChangeCause, client: Partial<Omit<ChangeOrigin, 'by'>> = {}): ChangeOrigin => ({
  ...nobody,
  ...client,
  by,
})

/** The trace id in a W3C `traceparent`; '' when it is none. */
export function traceIdOf(traceparent: string | null): string {
  return /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/.exec(traceparent ?? '')?.[1] ?? ''
}

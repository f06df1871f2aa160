/**
 * Why a model was loaded or unloaded: a client asked (http, grpc), a model did, the embedding program did, the server was
 * started, files changed (poll), a request came for a model that was not in memory (demand), none came (residency), a rollout needs it (rollout), or an alert asked for it (alert).
 */
export type ChangeCause =
  'http' | 'grpc' | 'model' | 'embedding' | 'start' | 'poll' | 'demand' | 'residency' | 'rollout' | 'access' | 'alert'

/** Who asked for a change. A field that is not known is ''. */
export type ChangeOrigin = {
  readonly by: ChangeCause
  /** The address of the client. */
  readonly address: string
  /** The principal with `--access-config`, else the name of the header that opened a restricted API; never the value of the header. */
  readonly key: string
  /** The client's own id of the request: `x-request-id`. */
  readonly requestId: string
  /** The id of the client's distributed trace, from `traceparent`. */
  readonly traceId: string
  /** The model whose change caused this change, as an ensemble for its parts. */
  readonly because: string
}

const nobody = { address: '', key: '', requestId: '', traceId: '', because: '' }

export const changeOrigin = (by: ChangeCause, client: Partial<Omit<ChangeOrigin, 'by'>> = {}): ChangeOrigin => ({
  ...nobody,
  ...client,
  by,
})

/** The trace id in a W3C `traceparent`; '' when the text is not a valid `traceparent`. */
export function traceIdOf(traceparent: string | null): string {
  return /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/.exec(traceparent ?? '')?.[1] ?? ''
}

// One entry for every request that a client made. What an entry looks like belongs to the writer (cli/).

/** Never holds tensors, headers or queries: what a client sends may be secret. */
export type AccessEntry = {
  /** `shadow`: no client made it, it is the copy of a request for a version on trial. */
  readonly protocol: 'http' | 'grpc' | 'shadow'
  /** `POST`, or the name of the RPC. */
  readonly method: string
  /** Without its query. */
  readonly path: string
  /** HTTP's status, or gRPC's code. */
  readonly status: number
  readonly client: string
  /** Who called, as Admission found out; '' for nobody in particular. */
  readonly caller: string
  /** Who pays for the call; '' without `--access-config`. */
  readonly tenant: string
  /** Of the body or the messages, as they came; null for one request of a stream, whose end tells of all of them. */
  readonly bytesIn: number | null
  readonly bytesOut: number | null
  /** From the arrival of the whole request until its answer was handed to the socket. */
  readonly totalNs: number
  /** The client went away before it had its answer. */
  readonly isAborted: boolean
  /** The trace that the client says its request is part of, or ''. */
  readonly traceparent: string
  /** The version of the model that took the request; '' for none. */
  readonly modelVersion: string
  /** Null for a request that was no inference, or that was refused before it became one. */
  readonly inference: AccessInference | null
}

type AccessInference = {
  readonly modelName: string
  readonly id: string
  readonly traceId: string
  readonly batchSize: number
  readonly responseCount: number
  readonly queueStartNs: number
  readonly computeStartNs: number
  readonly computeEndNs: number
  /** Why a queue refused the request; '' or absent when none did. */
  readonly refusal?: string
  /** Null: no rollout routed the request. */
  readonly watch: { readonly variant: string } | null
}

export interface AccessLog {
  /** Never waits and never throws. Without room the entry is counted and dropped. */
  write(entry: AccessEntry): void
  /** Entries that were dropped. */
  readonly droppedCount: number
}

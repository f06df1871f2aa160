import type { ApiName } from './api-name.ts'

/** The facts about a call that are known before its body. Admission decides on these facts alone. */
export interface CallFacts {
  /** The port's protocol. */
  readonly protocol: 'http' | 'grpc' | 'metrics' | 'embedded'
  /** The part of the API that the call is for. */
  readonly api: ApiName
  /** The path of an HTTP request, without host and query; `/service/method` of a gRPC call. */
  readonly path: string
  /** The address of the client; '' for a call that came by no connection. */
  readonly peer: string
  /** The value of a header or of a metadata key; `name` is in lower case. Null: the call has no such header. */
  header(name: string): string | null
}

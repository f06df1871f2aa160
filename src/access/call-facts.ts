import type { ApiName } from './api-name.ts'

/** What is known of a call before its body. Admission decides on these facts alone. */
export interface CallFacts {
  /** The port's protocol. */
  readonly protocol: 'http' | 'grpc' | 'metrics' | 'embedded'
  /** The part of the API that the call is for. */
  readonly api: ApiName
  /** The path of an HTTP request, `/service/method` of a gRPC call. */
  readonly path: string
  /** The address of the other side; '' where there is none. */
  readonly peer: string
  /** The value of a header, or of a piece of metadata; `name` is in lower case. Null: the call has none. */
  header(name: string): string | null
}

import type { Caller } from '../../access/caller.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { StatusCode } from '../../transport/grpc/grpc-status.ts'
import type { GrpcCall } from '../../transport/grpc/grpc-transport.ts'

/** A call as a method gets it. */
export interface PortCall extends GrpcCall {
  /** While a call lasts: its caller has other rights now. */
  onRenewed?: (caller: Caller) => void
  /** For the access log: this caller was admitted. */
  noteCaller?(caller: Caller): void
  /** For the access log: the call became an inference of this model version. */
  noteInference?(inference: InferenceRequest, version: string): void
  /** For the access log: one request of a stream has ended. */
  inferenceEnded?(inference: InferenceRequest, version: string, code: StatusCode): void
}

import type { Caller } from '../../access/caller.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { StatusCode } from '../../transport/grpc/grpc-status.ts'
import type { GrpcCall } from '../../transport/grpc/grpc-transport.ts'

/** A call as a method gets it. */
export interface PortCall extends GrpcCall {
  /** For whoever writes down what becomes of calls: this caller was admitted. */
  noteCaller?(caller: Caller): void
  /** For whoever writes down what becomes of calls: this one became an inference of that version of its model. */
  noteInference?(inference: InferenceRequest, version: string): void
  /** The same for one request of a stream, once it has ended. */
  inferenceEnded?(inference: InferenceRequest, version: string, code: StatusCode): void
}

import type { InferenceRequest } from '../../model/inference-request.ts'
import type { HttpRequest } from '../../transport/http1/http-message.ts'

/** A request as a route gets it. */
export interface PortRequest extends HttpRequest {
  /** For the access log: the request became an inference of this model version. */
  noteInference?(inference: InferenceRequest, version: string): void
}

import type { InferenceRequest } from '../../model/inference-request.ts'
import type { HttpRequest } from '../../transport/http1/http-message.ts'

/** A request as a route gets it. */
export interface PortRequest extends HttpRequest {
  /** For whoever writes down what becomes of requests: this one became an inference of that version of its model. */
  noteInference?(inference: InferenceRequest, version: string): void
}

import { JsonHeaderSizeRequest, lengthHeader } from '../../ports/http/json-header-size-request.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { HttpResponse } from '../../transport/http1/http-message.ts'

const mediaType = 'application/vnd.sagemaker-triton.binary+json'

/** The content type of an answer, too, says where its JSON ends. */
export class SageMakerRequest extends JsonHeaderSizeRequest {
  readonly #statusOf: ((response: HttpResponse) => number) | null

  /** Throws ServerError for a size that makes no sense. */
  constructor(inner: PortRequest, statusOf: ((response: HttpResponse) => number) | null) {
    super(inner, mediaType)
    this.#statusOf = statusOf
  }

  override respond(response: HttpResponse): void {
    const { contentType, parts, headers, release, closesConnection } = response
    const at = headers.indexOf(lengthHeader)
    const type = at < 0 ? contentType : `${mediaType};json-header-size=${headers[at + 1]}`
    const others = at < 0 ? headers : headers.toSpliced(at, 2)
    const status = this.#statusOf?.(response) ?? response.status
    this.inner.respond(new HttpResponse(status, type, parts, { headers: others, release, closesConnection }))
  }
}

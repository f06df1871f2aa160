import { parseJsonHeaderSize } from '../../protocol/json-header-size.ts'
import { headerOf, HttpResponse } from '../../transport/http1/http-message.ts'
import type { PortRequest } from './port-request.ts'
import { WrappedRequest } from './wrapped-request.ts'

const lengthHeader = 'Inference-Header-Content-Length'

/**
 * A request of v2 whose content type says where the JSON ends: the endpoints of v2 see their own header, and the client sees
 * its own content type in the answer.
 */
export class JsonHeaderSizeRequest extends WrappedRequest {
  readonly #mediaType: string
  readonly #headers: readonly string[]
  readonly #statusOf: ((response: HttpResponse) => number) | null

  /** Throws ServerError for a size that makes no sense. */
  constructor(inner: PortRequest, mediaType: string, statusOf: ((response: HttpResponse) => number) | null = null) {
    super(inner)
    this.#mediaType = mediaType
    this.#statusOf = statusOf
    const contentType = headerOf(inner.headers, 'content-type')
    const size = contentType === null ? null : parseJsonHeaderSize(contentType, mediaType, inner.body.length)
    const others = inner.headers.filter((_, i) => (inner.headers[i & ~1] as string).toLowerCase() !== lowerCaseName)
    this.#headers = size === null ? others : [...others, lengthHeader, String(size)]
  }

  override get headers(): readonly string[] {
    return this.#headers
  }

  override respond(response: HttpResponse): void {
    const { contentType, parts, headers, release, closesConnection } = response
    const status = this.#statusOf?.(response) ?? response.status
    const length = headerOf(headers, lowerCaseName)
    const at = headers.indexOf(lengthHeader)
    const type = length === null ? contentType : `${this.#mediaType};json-header-size=${length}`
    const others = at < 0 ? headers : headers.toSpliced(at, 2)
    this.inner.respond(new HttpResponse(status, type, parts, { headers: others, release, closesConnection }))
  }
}

const lowerCaseName = lengthHeader.toLowerCase()

import { parseJsonHeaderSize } from '../../protocol/json-header-size.ts'
import { headerOf } from '../../transport/http1/http-message.ts'
import type { PortRequest } from './port-request.ts'
import { WrappedRequest } from './wrapped-request.ts'

export const lengthHeader = 'Inference-Header-Content-Length'
const lowerCaseName = lengthHeader.toLowerCase()

/** A request of v2 whose content type says where the JSON ends: the endpoints of v2 see their own header. */
export class JsonHeaderSizeRequest extends WrappedRequest {
  readonly #headers: readonly string[]

  /** Throws ServerError for a size that makes no sense. */
  constructor(inner: PortRequest, mediaType: string) {
    super(inner)
    const contentType = headerOf(inner.headers, 'content-type')
    const size = contentType === null ? null : parseJsonHeaderSize(contentType, mediaType, inner.body.length)
    const others = inner.headers.filter((_, i) => (inner.headers[i & ~1] as string).toLowerCase() !== lowerCaseName)
    this.#headers = size === null ? others : [...others, lengthHeader, String(size)]
  }

  override get headers(): readonly string[] {
    return this.#headers
  }
}

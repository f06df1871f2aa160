import type { ErrorWording } from '../../model/error-wording.ts'
import { parseJsonHeaderSize } from '../../protocol/json-header-size.ts'
import { headerOf, jsonType, plainType } from '../../transport/http1/http-message.ts'
import type { PortRequest } from './port-request.ts'
import { WrappedRequest } from './wrapped-request.ts'

export const lengthHeader = 'Inference-Header-Content-Length'
/** What SageMaker and Vertex AI do not have: as in Triton, bodies and answers are as they are, whatever a proxy accepts. */
const unseen: ReadonlySet<string> = new Set([lengthHeader.toLowerCase(), 'accept-encoding', 'content-encoding'])

/** The content type of an answer that these front ends make themselves: Triton sets none, and has its default. */
export const ownType = ({ isTriton }: ErrorWording): string => (isTriton ? plainType : jsonType)

/** A request of v2 whose content type says where the JSON ends: the endpoints of v2 see their own header. */
export class JsonHeaderSizeRequest extends WrappedRequest {
  readonly #headers: readonly string[]

  /** Throws ServerError for a size that makes no sense. */
  constructor(inner: PortRequest, mediaType: string) {
    super(inner)
    const contentType = headerOf(inner.headers, 'content-type')
    const size = contentType === null ? null : parseJsonHeaderSize(contentType, mediaType, inner.body.length)
    const others = inner.headers.filter((_, i) => !unseen.has((inner.headers[i & ~1] as string).toLowerCase()))
    this.#headers = size === null ? others : [...others, lengthHeader, String(size)]
  }

  override get headers(): readonly string[] {
    return this.#headers
  }
}

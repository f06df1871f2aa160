// How SageMaker and Vertex AI say how long the JSON in front of binary tensors is: as a parameter of the content type, because
// their proxies pass no other header on.

import { ServerError } from '../base/server-error.ts'

const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

/** The size in `<mediaType>;json-header-size=N`; null when the content type is another one. Throws with Triton's texts. */
export function parseJsonHeaderSize(contentType: string, mediaType: string, bodyBytes: number): number | null {
  const prefix = `${mediaType};json-header-size=`
  const at = contentType.indexOf(prefix)
  if (at < 0) return null
  if (at > 0) throw invalid(`expect MIME type for binary data starts with '${prefix}', got: ${contentType}`)
  const given = contentType.slice(prefix.length)
  // As C++'s stoi: white space, a sign, digits; the rest is ignored.
  const digits = /^[ \t]*([+-]?\d+)/.exec(given)?.[1]
  if (digits === undefined) throw invalid(`Unable to parse inference header size, got: ${given}`)
  const size = Number(digits)
  if (size > 2 ** 31 - 1 || size < -(2 ** 31)) {
    throw invalid(`Unable to parse inference header size, value is out of range, got: ${given}`)
  }
  if (size < 0 || size > bodyBytes) {
    throw invalid(`inference header size should be in range (0, ${bodyBytes}), got: ${given}`)
  }
  return size
}

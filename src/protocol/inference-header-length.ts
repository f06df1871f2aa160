import { ServerError } from '../base/server-error.ts'

/**
 * The length of the JSON part from `Inference-Header-Content-Length`; null without the header. Read like C's `atoi`: blanks,
 * a sign, digits, and whatever follows is ignored, so that text without digits is 0 and means a raw request.
 */
export function parseInferenceHeaderLength(text: string | undefined, bodyBytes: number): number | null {
  if (text === undefined) return null
  const digits = /^\s*([+-]?\d+)/.exec(text)?.[1]
  const length = digits === undefined ? 0 : Number(digits)
  if (length < 0 || length > bodyBytes) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `inference header size should be in range (0, ${bodyBytes}), got: ${text}`,
    )
  }
  return length
}

import { ServerError } from '../base/server-error.ts'

/** More than the bytes of any body, and small enough for exact arithmetic. */
const cap = 2 ** 40

/**
 * `Inference-Header-Content-Length`, read like C's atoi as in Triton: white space, a sign, digits. The rest is ignored.
 * A text without digits is 0, which means a raw request. HOT.
 */
export function parseHeaderLength(text: string, bodyBytes: number): number {
  let at = 0
  while (isSpace(text.charCodeAt(at))) at++
  const isNegative = text[at] === '-'
  if (isNegative || text[at] === '+') at++
  let magnitude = 0
  for (; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 0x30
    if (digit < 0 || digit > 9) break
    magnitude = Math.min(magnitude * 10 + digit, cap)
  }
  if (magnitude <= bodyBytes && (magnitude === 0 || !isNegative)) return magnitude
  throw ServerError.withoutStack(
    'INVALID_ARG',
    `inference header size should be in range (0, ${bodyBytes}), got: ${text.trim()}`,
  )
}

const isSpace = (code: number): boolean => code === 0x20 || (code >= 0x09 && code <= 0x0d)

import { JsonTextWriter } from './json-text-writer.ts'

/** A message may repeat what a client sent, and that may have megabytes. */
const mostErrorChars = 65_536

/** What a client is told of an error: all of it, or the beginning. */
export const shownError = (message: string): string =>
  message.length <= mostErrorChars ? message : `${message.slice(0, mostErrorChars)}…`

/** `{"error":"…"}`, the body of every error Triton answers. */
export function encodeErrorBody(message: string): Buffer {
  const shown = shownError(message)
  const writer = new JsonTextWriter(shown.length + 32)
  writer.raw('{"error":')
  writer.string(shown)
  writer.raw('}')
  return writer.finish()
}

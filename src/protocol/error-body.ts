import { JsonTextWriter } from './json-text-writer.ts'

/** `{"error":"…"}`, the body of every error Triton answers. */
export function encodeErrorBody(message: string): Buffer {
  const writer = new JsonTextWriter(message.length + 32)
  writer.raw('{"error":')
  writer.string(message)
  writer.raw('}')
  return writer.finish()
}

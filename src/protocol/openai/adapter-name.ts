import type { JsonObject } from './request-fields.ts'

/**
 * Triton's OpenAI front end takes the name of an adapter behind the name of the model: `chat_lora_formal` with the separator `_lora_`.
 * The body as if the model and the member `lora` were given apart. `separator` '': names are as they are.
 */
export function splitAdapterName(body: JsonObject, separator: string): JsonObject {
  const { model } = body
  if (separator === '' || typeof model !== 'string') return body
  const at = model.indexOf(separator)
  if (at <= 0 || at + separator.length === model.length) return body
  return { ...body, model: model.slice(0, at), lora: model.slice(at + separator.length) }
}

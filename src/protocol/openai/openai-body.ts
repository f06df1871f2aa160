import { jsonFormProblem } from '../../base/json-form.ts'
import { badRequest } from './openai-problem.ts'
import { isObject, type JsonObject } from './request-fields.ts'

const decoder = new TextDecoder('utf-8', { fatal: true })

/** The body of a request. Throws OpenAiProblem. */
export function readOpenAiBody(body: Uint8Array, maxBytes: number): JsonObject {
  if (body.length > maxBytes) {
    throw badRequest(
      `the request body has ${body.length} bytes, at most ${maxBytes} are taken. Use --openai-max-request-bytes to increase the limit.`,
      null,
      'content_too_large',
    )
  }
  const problem = jsonFormProblem(body)
  if (problem !== '') throw badRequest(`the request body is not read: ${problem}`)
  let parsed: unknown
  try {
    parsed = JSON.parse(decoder.decode(body))
  } catch (reason) {
    const why = reason instanceof SyntaxError ? reason.message.slice(0, 200) : 'it is not UTF-8'
    throw badRequest(`We could not parse the JSON body of your request: ${why}`)
  }
  if (isObject(parsed)) return parsed
  throw badRequest('the body of the request must be a JSON object')
}

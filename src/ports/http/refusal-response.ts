import type { Refusal, RefusalReason } from '../../access/refusal.ts'
import { plainType, type HttpResponse } from '../../transport/http1/http-message.ts'
import { messageResponse } from './error-response.ts'

const statusOf: Readonly<Record<RefusalReason, number>> = {
  unauthenticated: 401,
  restricted: 403,
  forbidden: 403,
  exhausted: 429,
}

/** Many calls may be refused for one reason: their Refusal is one object, and so is their answer. */
const made = new WeakMap<Refusal, HttpResponse>()

/** The answer to a call that Admission refused. */
export function refusalResponse(refusal: Refusal): HttpResponse {
  let response = made.get(refusal)
  if (response === undefined) {
    response = makeResponse(refusal)
    made.set(refusal, response)
  }
  return response
}

function makeResponse({ reason, message, headers = [], retryAfterMs }: Refusal): HttpResponse {
  const retry = retryAfterMs === undefined ? [] : ['Retry-After', String(Math.ceil(retryAfterMs / 1000))]
  return messageResponse(statusOf[reason], message, plainType, { headers: [...headers, ...retry], isRepeated: true })
}

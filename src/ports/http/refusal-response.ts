import type { Refusal, RefusalReason } from '../../access/refusal.ts'
import { plainType, type HttpResponse } from '../../transport/http1/http-message.ts'
import { messageResponse } from './error-response.ts'

const statusOf: Readonly<Record<RefusalReason, number>> = {
  unauthenticated: 401,
  restricted: 403,
  forbidden: 403,
  exhausted: 429,
}

/** The answer to a call that Admission refused. */
export function refusalResponse({ reason, message, headers = [], retryAfterMs }: Refusal): HttpResponse {
  const retry = retryAfterMs === undefined ? [] : ['Retry-After', String(Math.ceil(retryAfterMs / 1000))]
  return messageResponse(statusOf[reason], message, plainType, { headers: [...headers, ...retry] })
}

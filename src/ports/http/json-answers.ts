// Bodies and answers of routes that take and give JSON objects.

import { jsonFormProblem } from '../../base/json-form.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { messageResponse, respondWithError } from './error-response.ts'
import { HttpResponse, jsonType, type HttpRequest } from '../../transport/http1/http-message.ts'

/** An empty body is an empty object. */
export function bodyOf({ body }: Pick<HttpRequest, 'body'>): Readonly<Record<string, unknown>> {
  if (body.length === 0) return {}
  const problem = jsonFormProblem(body)
  if (problem !== '') throw ServerError.withoutStack('INVALID_ARG', `the body is not read: ${problem}`)
  let value: unknown
  try {
    value = JSON.parse(body.toString('utf8'))
  } catch (reason) {
    throw new ServerError('INVALID_ARG', `the body is not JSON: ${messageOf(reason)}`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ServerError('INVALID_ARG', 'the body must be a JSON object')
  }
  return value as Readonly<Record<string, unknown>>
}

export function answer(request: HttpRequest, status: number, make: () => unknown): void {
  Promise.try(make).then(
    (value) => request.respond(new HttpResponse(status, jsonType, [Buffer.from(JSON.stringify(value))])),
    (reason: unknown) => fail(request, reason),
  )
}

export function fail(request: HttpRequest, reason: unknown): void {
  const isConflict = reason instanceof ServerError && reason.code === 'ALREADY_EXISTS'
  if (isConflict) request.respond(messageResponse(409, reason.message, jsonType))
  else respondWithError(request, reason)
}

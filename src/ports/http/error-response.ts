import { ServerError, type ErrorCode } from '../../base/server-error.ts'
import { encodeErrorBody } from '../../protocol/error-body.ts'
import { HttpResponse, jsonType, plainType, type HttpRequest } from '../../transport/http1/http-message.ts'

/** Triton's table. */
export const httpStatusOf: Readonly<Record<ErrorCode, number>> = {
  UNKNOWN: 400,
  INTERNAL: 500,
  NOT_FOUND: 404,
  INVALID_ARG: 400,
  UNAVAILABLE: 503,
  UNSUPPORTED: 501,
  ALREADY_EXISTS: 400,
  CANCELLED: 400,
  FORBIDDEN: 403,
  EXHAUSTED: 429,
}

export function messageResponse(
  status: number,
  message: string,
  contentType: string,
  options: { headers?: readonly string[]; closesConnection?: boolean; isRepeated?: boolean } = {},
): HttpResponse {
  return new HttpResponse(status, contentType, [encodeErrorBody(message)], options)
}

export function errorResponse(error: ServerError, contentType: string): HttpResponse {
  if (!error.isShared) return newResponse(error, contentType)
  const made = contentType === jsonType ? madeJson : madePlain
  let response = made.get(error)
  if (response === undefined) {
    response = newResponse(error, contentType)
    made.set(error, response)
  }
  return response
}

/** What is no ServerError was not foreseen, so the log has it, too: it may come up long after the port has called the handler. */
export function respondWithError(request: HttpRequest, reason: unknown, contentType = jsonType): void {
  if (!(reason instanceof ServerError)) request.noteFault?.(reason)
  request.respond(errorResponse(ServerError.from(reason), contentType))
}

const madeJson = new WeakMap<ServerError, HttpResponse>()
const madePlain = new WeakMap<ServerError, HttpResponse>()

const newResponse = (error: ServerError, contentType: string): HttpResponse => {
  const options = { headers: retryHeaders(error), isRepeated: error.isShared }
  return messageResponse(httpStatusOf[error.code], error.message, contentType, options)
}

const noHeaders: readonly string[] = []

export const retryHeaders = ({ retryAfterSecs }: ServerError): readonly string[] =>
  retryAfterSecs === 0 ? noHeaders : ['Retry-After', String(Math.ceil(retryAfterSecs))]

const noParts: readonly Uint8Array[] = []

// These bodies never change, so they are made once.
export const notFoundBody = encodeErrorBody('Not Found')
export const notAllowedBody = encodeErrorBody('Method Not Allowed')
export const notReadyBody = encodeErrorBody('Model version not ready')

export const emptyResponse = (status: number): HttpResponse => new HttpResponse(status, plainType, noParts)

export const jsonResponse = (body: Uint8Array): HttpResponse => new HttpResponse(200, jsonType, [body])

/** Metrics as Prometheus reads them. */
export const metricsResponse = (text: string): HttpResponse =>
  new HttpResponse(200, 'text/plain; version=0.0.4; charset=utf-8', [Buffer.from(text)])

// Answers in the form of TorchServe: JSON with two spaces, headers against caches, errors as {code, type, message}.

import { randomUUID } from 'node:crypto'
import type { ServerError } from '../../base/server-error.ts'
import { retryHeaders } from '../../ports/http/error-response.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { HttpResponse, jsonType } from '../../transport/http1/http-message.ts'

/** An error that TorchServe knows by the name of its class. */
export class TorchserveError extends Error {
  readonly status: number
  readonly type: string

  constructor(status: number, type: string, message: string) {
    super(message)
    this.status = status
    this.type = type
  }
}

export const modelNotFound = (name: string): TorchserveError =>
  new TorchserveError(404, 'ModelNotFoundException', `Model not found: ${name}`)
export const versionNotFound = (name: string, version: string): TorchserveError =>
  new TorchserveError(
    404,
    'ModelVersionNotFoundException',
    `Model version: ${version} does not exist for model: ${name}`,
  )
export const badRequest = (message: string): TorchserveError => new TorchserveError(400, 'BadRequestException', message)
export const noWorker = (name: string): TorchserveError =>
  new TorchserveError(
    503,
    'ServiceUnavailableException',
    `Model "${name}" has no worker to serve inference request. Please use scale workers API to add workers. ` +
      'If this is a sequence inference, please check if it is closed, or expired; or exceeds maxSequenceJobQueueSize',
  )
export const unknownResource = (): TorchserveError =>
  new TorchserveError(
    404,
    'ResourceNotFoundException',
    'Requested resource is not found, please refer to API document.',
  )
export const wrongMethod = (): TorchserveError =>
  new TorchserveError(
    405,
    'MethodNotAllowedException',
    'Requested method is not allowed, please refer to API document.',
  )

const kinds: Readonly<Record<ServerError['code'], readonly [status: number, type: string]>> = {
  NOT_FOUND: [404, 'ModelNotFoundException'],
  INVALID_ARG: [400, 'BadRequestException'],
  UNAVAILABLE: [503, 'ServiceUnavailableException'],
  UNSUPPORTED: [405, 'MethodNotAllowedException'],
  ALREADY_EXISTS: [409, 'ConflictStatusException'],
  CANCELLED: [408, 'RequestTimeoutException'],
  FORBIDDEN: [403, 'ForbiddenException'],
  EXHAUSTED: [429, 'ServiceUnavailableException'],
  INTERNAL: [500, 'InternalServerException'],
  UNKNOWN: [500, 'InternalServerException'],
}

/** The status of a failure that the handler caused stands at the end of its text. */
export function torchserveError(error: ServerError): TorchserveError {
  const handler = /^(.*) \(status (\d{3})\)$/s.exec(error.message)
  if (handler !== null) return new TorchserveError(Number(handler[2]), 'InternalServerException', handler[1] ?? '')
  const [status, type] = kinds[error.code]
  return new TorchserveError(status, type, error.message)
}

const noCache = [
  'Pragma',
  'no-cache',
  'Cache-Control',
  'no-cache; no-store, must-revalidate, private',
  'Expires',
  'Thu, 01 Jan 1970 00:00:00 UTC',
]

export const torchserveHeaders = (requestId = randomUUID()): string[] => ['x-request-id', requestId, ...noCache]

const torchserveJson = (value: unknown): Buffer => Buffer.from(`${JSON.stringify(value, null, 2)}\n`)

export function answerJson(http: PortRequest, value: unknown, status = 200): void {
  http.respond(new HttpResponse(status, jsonType, [torchserveJson(value)], { headers: torchserveHeaders() }))
}

export const answerStatus = (http: PortRequest, text: string, status = 200): void =>
  answerJson(http, { status: text }, status)

/** As in TorchServe an error ends the connection. */
export function answerError(http: PortRequest, error: TorchserveError, cause: ServerError | null = null): void {
  const { status, type, message } = error
  const headers = [...torchserveHeaders(), ...(cause === null ? [] : retryHeaders(cause))]
  http.respond(
    new HttpResponse(status, jsonType, [torchserveJson({ code: status, type, message })], {
      headers,
      closesConnection: true,
    }),
  )
}

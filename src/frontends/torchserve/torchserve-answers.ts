// Answers in the form of TorchServe: JSON with two spaces, headers against caches, errors as {code, type, message}.

import { randomUUID } from 'node:crypto'
import { ServerError } from '../../base/server-error.ts'
import { retryHeaders } from '../../ports/http/error-response.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { shownError } from '../../protocol/error-body.ts'
import { HttpResponse, jsonType } from '../../transport/http1/http-message.ts'

/** An error that TorchServe knows by the name of its class, whatever its code is. */
export class TorchserveError extends ServerError {
  readonly status: number
  readonly type: string

  constructor(status: number, type: string, message: string) {
    super('INVALID_ARG', message)
    this.status = status
    this.type = `${type}Exception`
  }
}

export const badRequest = (text: string): TorchserveError => new TorchserveError(400, 'BadRequest', text)
export const modelNotFound = (name: string): TorchserveError =>
  new TorchserveError(404, 'ModelNotFound', `Model not found: ${name}`)
export const versionNotFound = (name: string, version: string): TorchserveError =>
  new TorchserveError(404, 'ModelVersionNotFound', `Model version: ${version} does not exist for model: ${name}`)
const lookUp = 'please refer to API document.'
export const unknownResource = (): TorchserveError =>
  new TorchserveError(404, 'ResourceNotFound', `Requested resource is not found, ${lookUp}`)
export const wrongMethod = (): TorchserveError =>
  new TorchserveError(405, 'MethodNotAllowed', `Requested method is not allowed, ${lookUp}`)
/** By HTTP it is the method that is not allowed. */
export class ModelApiIsOff extends TorchserveError {
  readonly toldByGrpc = 'Model API disabled\norg.pytorch.serve.archive.model.ModelException'
}
export const modelApiIsOff = (): TorchserveError => new ModelApiIsOff(405, 'MethodNotAllowed', wrongMethod().message)
export const noWorkerToDescribe = (name: string): TorchserveError => {
  const text = `Model "${name}" has no worker to serve describe request. Please use scale workers API to add workers.`
  return new TorchserveError(503, 'ServiceUnavailable', text)
}
/** As in TorchServe without the reason, which the log has: it names places on the server's disk. */
export function notStarted(name: string, version: string, reason: string): TorchserveError {
  const isOfMemory = /\b(Memory|CUDA)/.test(reason)
  const text = `Failed to start workers for model ${name} version: ${version === '' ? 'null' : version}`
  return new TorchserveError(isOfMemory ? 507 : 500, 'InternalServer', text)
}
/** The odd quote is TorchServe's. */
export const noWorker = (name: string, version: string): TorchserveError => {
  const which = version === '' ? name : `${name}" Version ${version}`
  const text = `Model "${which}" has no worker to serve inference request. Please use scale workers API to add workers.`
  const sequence = 'please check if it is closed, or expired; or exceeds maxSequenceJobQueueSize'
  return new TorchserveError(503, 'ServiceUnavailable', `${text} If this is a sequence inference, ${sequence}`)
}

const kinds: Readonly<Record<ServerError['code'], readonly [status: number, type: string]>> = {
  NOT_FOUND: [404, 'ModelNotFound'],
  INVALID_ARG: [400, 'BadRequest'],
  UNAVAILABLE: [503, 'ServiceUnavailable'],
  UNSUPPORTED: [405, 'MethodNotAllowed'],
  ALREADY_EXISTS: [409, 'ConflictStatus'],
  CANCELLED: [408, 'RequestTimeout'],
  FORBIDDEN: [403, 'Forbidden'],
  EXHAUSTED: [429, 'ServiceUnavailable'],
  INTERNAL: [500, 'InternalServer'],
  UNKNOWN: [500, 'InternalServer'],
}

/** What a client is told. The status of a failure that the handler caused stands at the end of its text. */
export function torchserveError(reason: unknown): TorchserveError {
  if (reason instanceof TorchserveError) return reason
  const { code, message } = ServerError.from(reason)
  const handler = /^(.*) \(status (\d{3})\)$/s.exec(message)
  if (handler !== null) return new TorchserveError(Number(handler[2]), 'InternalServer', handler[1] ?? '')
  return new TorchserveError(...kinds[code], message)
}

const noCache = [
  ['Pragma', 'no-cache'],
  ['Cache-Control', 'no-cache; no-store, must-revalidate, private'],
  ['Expires', 'Thu, 01 Jan 1970 00:00:00 UTC'],
].flat()

export const torchserveHeaders = (requestId = randomUUID()): string[] => ['x-request-id', requestId, ...noCache]

export const prettyJson = (value: unknown): string => JSON.stringify(value, null, 2)

export function answerJson(http: PortRequest, value: unknown, status = 200, cause: unknown = null): void {
  const retry = cause instanceof ServerError ? retryHeaders(cause) : []
  // As in TorchServe an error ends the connection.
  const options = { headers: [...torchserveHeaders(), ...retry], closesConnection: cause !== null }
  http.respond(new HttpResponse(status, jsonType, [Buffer.from(`${prettyJson(value)}\n`)], options))
}

/** Returns the status. */
export function answerError(http: PortRequest, reason: unknown): number {
  const { status, type, message } = torchserveError(reason)
  answerJson(http, { code: status, type, message: shownError(message) }, status, reason)
  return status
}

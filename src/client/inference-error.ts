// What every call of a client rejects with, whichever protocol it speaks.

import { messageOf, type ErrorCode } from '../base/server-error.ts'

/**
 * The server's own eight codes, and what can go wrong on this side of the wire:
 * - `FORBIDDEN`: a restricted API was called without its secret.
 * - `TIMEOUT`: `timeoutMs` passed. The server may or may not have done the work.
 * - `UNREACHABLE`: no connection, or it broke before the answer was there.
 * - `PROTOCOL`: the answer is not what an inference server says.
 */
export type InferenceErrorCode = ErrorCode | 'FORBIDDEN' | 'TIMEOUT' | 'UNREACHABLE' | 'PROTOCOL'

type InferenceErrorOptions = ErrorOptions & {
  readonly status?: number | null
  /** True when it is certain that the server never saw the request, so that sending it again cannot do it twice. */
  readonly isUnsent?: boolean
}

export class InferenceError extends Error {
  readonly code: InferenceErrorCode
  /** The HTTP status or the gRPC status number; null when the server gave none. */
  readonly status: number | null
  readonly isUnsent: boolean

  constructor(code: InferenceErrorCode, message: string, options: InferenceErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.name = 'InferenceError'
    this.code = code
    this.status = options.status ?? null
    this.isUnsent = options.isUnsent ?? false
  }

  /** What this side of the wire finds wrong with a request, before anything is sent. */
  static ofArgument(message: string): InferenceError {
    return new InferenceError('INVALID_ARG', message, { isUnsent: true })
  }

  static from(reason: unknown): InferenceError {
    return reason instanceof InferenceError
      ? reason
      : new InferenceError('PROTOCOL', messageOf(reason), { cause: reason })
  }
}

const codeOfHttpStatus: Readonly<Record<number, InferenceErrorCode>> = {
  400: 'INVALID_ARG',
  401: 'FORBIDDEN',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  405: 'UNSUPPORTED',
  413: 'INVALID_ARG',
  429: 'UNAVAILABLE',
  499: 'CANCELLED',
  500: 'INTERNAL',
  501: 'UNSUPPORTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'UNAVAILABLE',
}

export const codeOfHttp = (status: number): InferenceErrorCode => codeOfHttpStatus[status] ?? 'UNKNOWN'

/** By gRPC status number, 0 (OK) to 16. */
const codesOfGrpc: readonly InferenceErrorCode[] = [
  'UNKNOWN',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARG',
  'TIMEOUT',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'FORBIDDEN',
  'UNAVAILABLE',
  'INVALID_ARG',
  'CANCELLED',
  'INVALID_ARG',
  'UNSUPPORTED',
  'INTERNAL',
  'UNAVAILABLE',
  'INTERNAL',
  'FORBIDDEN',
]

export const codeOfGrpc = (status: number): InferenceErrorCode => codesOfGrpc[status] ?? 'UNKNOWN'

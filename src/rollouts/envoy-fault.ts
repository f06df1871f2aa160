// Faults that a client asks for by the headers of Envoy's fault filter.

import { ServerError, type ErrorCode } from '../base/server-error.ts'
import type { InjectedFault } from '../model/fault.ts'
import type { RequestOrigin } from '../model/request-origin.ts'
import { fullWeight, type RandomDraws } from './assignment.ts'

const prefix = 'x-envoy-fault'
const longestDelayMs = 300_000

const codeOfStatus: Readonly<Record<number, ErrorCode>> = {
  400: 'INVALID_ARG',
  404: 'NOT_FOUND',
  409: 'ALREADY_EXISTS',
  499: 'CANCELLED',
  501: 'UNSUPPORTED',
  503: 'UNAVAILABLE',
}
const codeOfGrpc: Readonly<Record<number, ErrorCode>> = {
  1: 'CANCELLED',
  2: 'UNKNOWN',
  3: 'INVALID_ARG',
  5: 'NOT_FOUND',
  6: 'ALREADY_EXISTS',
  12: 'UNSUPPORTED',
  14: 'UNAVAILABLE',
}

/** Null: the request asks for none, or was not drawn. */
export function envoyFault(origin: RequestOrigin, draws: RandomDraws): InjectedFault | null {
  const delayMs = numberOf(origin, `${prefix}-delay-request`)
  const status = numberOf(origin, `${prefix}-abort-request`)
  const grpcCode = numberOf(origin, `${prefix}-abort-grpc-request`)
  if (delayMs === null && status === null && grpcCode === null) return null
  const hasDelay = delayMs !== null && isDrawn(origin, 'delay', draws)
  const hasAbort = (status !== null || grpcCode !== null) && isDrawn(origin, 'abort', draws)
  if (!hasDelay && !hasAbort) return null
  const code = (status === null ? codeOfGrpc[grpcCode ?? 2] : codeOfStatus[status]) ?? 'INTERNAL'
  const abort = hasAbort ? ServerError.withoutStack(code, 'a fault that the request asked for') : null
  return { delayNs: hasDelay ? Math.min(delayMs, longestDelayMs) * 1e6 : 0, abort, isJudged: false }
}

function numberOf(origin: RequestOrigin, name: string): number | null {
  const text = origin.header(name)
  return text !== null && /^[0-9]{1,9}$/.test(text) ? Number(text) : null
}

function isDrawn(origin: RequestOrigin, kind: 'delay' | 'abort', draws: RandomDraws): boolean {
  const percent = numberOf(origin, `${prefix}-${kind}-request-percentage`)
  return percent === null || draws.bucket() < (percent * fullWeight) / 100
}

// Tries again what may go better in a moment: a lost connection, a server that is busy. What is wrong for good fails at once.

import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/server-error.ts'

export type RetryPolicy = {
  readonly attempts: number
  readonly firstDelayMs: number
  readonly maxDelayMs: number
}

/** About twelve seconds in all. */
export const defaultRetry: RetryPolicy = { attempts: 6, firstDelayMs: 250, maxDelayMs: 8000 }

/** An attempt that got somewhere may say so: only failures in a row count. */
export async function retryTransient<Value>(
  clock: Clock,
  policy: RetryPolicy,
  attempt: (startCountAnew: () => void) => Promise<Value>,
  onRetry: (reason: unknown, delayMs: number) => void = () => undefined,
): Promise<Value> {
  for (let failures = 1; ; failures++) {
    try {
      return await attempt(() => {
        failures = 0
      })
    } catch (reason) {
      if (failures >= policy.attempts || !isTransient(reason)) throw reason
      // Half of it by chance, so that many servers do not come back in step.
      const fullMs = Math.min(policy.firstDelayMs * 2 ** (failures - 1), policy.maxDelayMs)
      const delayMs = fullMs / 2 + (Math.random() * fullMs) / 2
      onRetry(reason, delayMs)
      await new Promise<void>((resolve) => void clock.after(delayMs * 1e6, resolve))
    }
  }
}

const transientCodes: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'ECONNABORTED',
  'ETIMEDOUT',
  'EPIPE',
  'EAI_AGAIN',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'ERR_STREAM_PREMATURE_CLOSE',
  'UND_ERR_SOCKET',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'REQUEST_SEND_ERROR',
  'RequestTimeout',
  'SlowDown',
  'TimeoutError',
])

/** A download that stands still, or ends before its end. */
export class StalledError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'TimeoutError'
  }
}

function isTransient(reason: unknown): boolean {
  for (let error = reason, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    const status = statusOf(error)
    if (status !== null) return status >= 500 || status === 408 || status === 425 || status === 429
    const { code } = error as { code?: unknown }
    if (typeof code === 'string' && transientCodes.has(code)) return true
    if (transientCodes.has(error.name)) return true
    // What Node's HTTP client says when the other side hangs up.
    if (/socket hang up|premature close|terminated|aborted/i.test(messageOf(error))) return true
  }
  return false
}

/** Who we said we are was not believed: credentials may have been renewed since they were read. */
export function isCredentialFailure(reason: unknown): boolean {
  for (let error = reason, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    const status = statusOf(error)
    if (status === 401 || status === 403 || /^(ExpiredToken|InvalidToken|CredentialsProviderError)/.test(error.name))
      return true
  }
  return false
}

/** The HTTP status, wherever the provider's library put it. */
function statusOf(error: unknown): number | null {
  const { $metadata, statusCode, status, code } = error as {
    $metadata?: { httpStatusCode?: unknown }
    statusCode?: unknown
    status?: unknown
    code?: unknown
  }
  for (const candidate of [$metadata?.httpStatusCode, statusCode, status, code]) {
    if (typeof candidate === 'number' && candidate >= 100 && candidate < 600) return candidate
  }
  return null
}

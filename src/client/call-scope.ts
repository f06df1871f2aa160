// One call's time: its deadline, its caller's signal, and the attempts that fit in between.

import type { CallOptions } from './infer-request.ts'
import { InferenceError } from './inference-error.ts'

const firstDelayMs = 50
const longestDelayMs = 2000
/** The longest that timers can count: about 24 days. */
const longestTimeoutMs = 2 ** 31 - 1

/**
 * `idempotent`: the call may be sent again. `once`: the call is sent again only when the server never saw it.
 * `unavailable`: as `once`, and also after the answer UNAVAILABLE.
 */
export type RetryRule = 'idempotent' | 'once' | 'unavailable'

export class CallScope {
  /** Aborts when the deadline passes, the caller aborts or the client is closed. */
  readonly signal: AbortSignal
  readonly #controller = new AbortController()
  readonly #callerSignal: AbortSignal | undefined
  readonly #deadlineMs: number | null
  readonly #timer: ReturnType<typeof setTimeout> | undefined

  /** `end` must follow, whatever becomes of the call. */
  constructor(options: CallOptions, defaultTimeoutMs: number | undefined) {
    const timeoutMs = options.timeoutMs ?? defaultTimeoutMs ?? null
    if (timeoutMs !== null && !(timeoutMs > 0 && timeoutMs <= longestTimeoutMs)) {
      throw InferenceError.ofArgument(`timeoutMs must be above 0 and at most ${longestTimeoutMs}, got ${timeoutMs}`)
    }
    options.signal?.throwIfAborted()
    this.#callerSignal = options.signal
    this.#deadlineMs = timeoutMs === null ? null : performance.now() + timeoutMs
    if (timeoutMs !== null) {
      const expire = (): void => this.abort(new InferenceError('TIMEOUT', `no answer within ${timeoutMs} ms`))
      this.#timer = setTimeout(expire, timeoutMs)
    }
    // Derived, not listened to: many calls may share the caller's signal, and Node warns of many listeners.
    const { signal } = this.#controller
    this.signal = options.signal === undefined ? signal : AbortSignal.any([signal, options.signal])
  }

  abort(reason: InferenceError): void {
    this.#controller.abort(reason)
  }

  /** The call is over: its timer must not outlive it. Twice is fine. */
  end(): void {
    clearTimeout(this.#timer)
  }

  /** Null when there is no deadline. Never less than one millisecond. */
  get remainingMs(): number | null {
    return this.#deadlineMs === null ? null : Math.max(1, this.#deadlineMs - performance.now())
  }

  /** What to throw for `reason`: the caller's own reason, a TIMEOUT, or `reason` itself. */
  errorFor(reason: unknown): unknown {
    if (this.#callerSignal?.aborted === true) return this.#callerSignal.reason
    return this.signal.aborted ? this.signal.reason : reason
  }

  /** What `promise` gives, unless the call ends before; it then rejects with the reason for that. */
  async race<Result>(promise: Promise<Result>): Promise<Result> {
    const { signal } = this
    let stop = (): void => undefined
    const ended = new Promise<never>((_, reject) => {
      stop = () => reject(this.errorFor(null))
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop, { once: true })
    })
    try {
      return await Promise.race([promise, ended])
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }

  /** Runs `attempt` until it succeeds, the rule forbids another one, or `retries` are used up. */
  async run<Result>(rule: RetryRule, retries: number, attempt: () => Promise<Result>): Promise<Result> {
    for (let tried = 0; ; tried++) {
      // The caller may have given up while the request was being prepared.
      if (this.signal.aborted) throw this.errorFor(null)
      try {
        return await attempt()
      } catch (reason) {
        const error = this.errorFor(reason)
        if (tried >= retries || !mayRetry(rule, error)) throw error
        await this.#sleep(Math.random() * Math.min(longestDelayMs, firstDelayMs * 2 ** tried))
      }
    }
  }

  async #sleep(delayMs: number): Promise<void> {
    const { signal } = this
    await new Promise<void>((resolve, reject) => {
      const stop = (): void => {
        clearTimeout(timer)
        reject(this.errorFor(null))
      }
      const timer = setTimeout(() => {
        signal.removeEventListener('abort', stop)
        resolve()
      }, delayMs)
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop, { once: true })
    })
  }
}

function mayRetry(rule: RetryRule, error: unknown): boolean {
  if (!(error instanceof InferenceError) || error.code === 'INVALID_ARG') return false
  if (error.isUnsent) return true
  if (rule === 'once') return false
  return error.code === 'UNAVAILABLE' || (rule === 'idempotent' && error.code === 'UNREACHABLE')
}

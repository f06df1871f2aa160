// Which of several servers a client asks: one, until it cannot be reached or says that it cannot serve; then the next.

import { InferenceError } from './inference-error.ts'

/** More addresses than any list that people write; each may have a connection of its own. */
const mostServers = 64

export class ServerChoice<Server> {
  readonly all: readonly Server[]
  #at = 0

  /** Throws InferenceError. */
  constructor(urls: string | readonly string[], make: (url: string) => Server) {
    const list = typeof urls === 'string' ? [urls] : urls
    if (list.length === 0 || list.length > mostServers) {
      throw InferenceError.ofArgument(`url takes an address, or 1 to ${mostServers} of them, got ${list.length}`)
    }
    this.all = list.map(make)
  }

  /** By default a call is tried at every server once. */
  get retries(): number {
    return Math.max(2, this.all.length)
  }

  async ask<Result>(attempt: (server: Server) => Promise<Result>): Promise<Result> {
    const at = this.#at
    try {
      return await attempt(this.all[at] as Server)
    } catch (reason) {
      // Many calls may fail at once: only the first of them moves on.
      if (isOut(reason) && this.#at === at) this.#at = (at + 1) % this.all.length
      throw reason
    }
  }
}

const isOut = (reason: unknown): boolean =>
  reason instanceof InferenceError && (reason.code === 'UNREACHABLE' || reason.code === 'UNAVAILABLE')

/**
 * With several servers a call that may see UNAVAILABLE again may also be sent again after a broken connection. The requests of a sequence
 * are never sent again: only one server knows it.
 */
export const inferRule = (
  mayRetry: boolean,
  isOfSequence: boolean,
  hasSeveral: boolean,
): 'once' | 'unavailable' | 'idempotent' => {
  if (!mayRetry) return 'once'
  return hasSeveral && !isOfSequence ? 'idempotent' : 'unavailable'
}

// What rules and keys may ask about a request.

import type { RequestOrigin } from '../model/request-origin.ts'
import type { RouteFacts } from './traffic-rule.ts'

/** Everything is read only when a rule or a key asks for it. One object serves all requests of a rollout, one after the other. */
export class AskedFacts implements RouteFacts {
  #facts: RequestOrigin | null = null
  #hasSequences = false
  readonly #countryOf: (facts: RequestOrigin) => string

  constructor(countryOf: (facts: RequestOrigin) => string) {
    this.#countryOf = countryOf
  }

  /** HOT: once per routed request. From now on the facts are those of this request. */
  of(facts: RequestOrigin, hasSequences: boolean): this {
    this.#facts = facts
    this.#hasSequences = hasSequences
    return this
  }

  /** A request is not kept longer than it is routed. */
  forget(): void {
    this.#facts = null
  }

  get #asked(): RequestOrigin {
    return this.#facts as RequestOrigin
  }

  get protocol(): string {
    return this.#asked.protocol
  }

  get groups(): readonly string[] {
    return this.#asked.caller.groups
  }

  get tenant(): string {
    return this.#asked.caller.tenant
  }

  get principal(): string {
    return this.#asked.caller.principal
  }

  header(name: string): string | null {
    return this.#asked.header(name)
  }

  country(): string {
    return this.#countryOf(this.#asked)
  }

  parameter(name: string): string | null {
    const value = this.#asked.head().parameters.get(name)
    return value === undefined ? null : String(value)
  }

  correlationId(): string {
    if (!this.#hasSequences) return ''
    const { correlationId } = this.#asked.head()
    return correlationId === 0n ? '' : String(correlationId)
  }
}

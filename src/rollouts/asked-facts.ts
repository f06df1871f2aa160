// What rules and keys may ask about a request.

import type { RequestOrigin } from '../model/request-origin.ts'
import type { RouteFacts } from './traffic-rule.ts'

/** HOT: one per routed request. Everything is read only when a rule or a key asks for it. */
export class AskedFacts implements RouteFacts {
  readonly #facts: RequestOrigin
  readonly #hasSequences: boolean
  readonly #countryOf: (facts: RequestOrigin) => string

  constructor(facts: RequestOrigin, hasSequences: boolean, countryOf: (facts: RequestOrigin) => string) {
    this.#facts = facts
    this.#hasSequences = hasSequences
    this.#countryOf = countryOf
  }

  get protocol(): string {
    return this.#facts.protocol
  }

  get groups(): readonly string[] {
    return this.#facts.caller.groups
  }

  get tenant(): string {
    return this.#facts.caller.tenant
  }

  get principal(): string {
    return this.#facts.caller.principal
  }

  header(name: string): string | null {
    return this.#facts.header(name)
  }

  country(): string {
    return this.#countryOf(this.#facts)
  }

  parameter(name: string): string | null {
    const value = this.#facts.head().parameters.get(name)
    return value === undefined ? null : String(value)
  }

  correlationId(): string {
    if (!this.#hasSequences) return ''
    const { correlationId } = this.#facts.head()
    return correlationId === 0n ? '' : String(correlationId)
  }
}

// The Chooser of a model with a live rollout: a thin layer between the Engine's Choice and the router.

import type { Chooser, RequestFacts } from '../model/choice.ts'
import type { Assignment, RolloutRouter } from './rollout-router.ts'
import type { RouteFacts } from './traffic-rule.ts'

/** What is known about a caller beyond its name. */
type CallerTraits = { readonly groups: readonly string[]; readonly tenant: string }

type ChooserSettings = {
  readonly router: RolloutRouter
  /** The versions of the arms, in the order of the router's arms. */
  readonly versions: readonly string[]
  /** The model keeps sequences: a request without a key is assigned by its correlation id. Reading that takes the body's head. */
  readonly hasSequences: boolean
  readonly traitsOf: (facts: RequestFacts) => CallerTraits
  /** Two capital letters, '' when it is not known. */
  readonly countryOf: (facts: RequestFacts) => string
  /** Called for each request that was routed. `arm` is the one that serves: stable where the arm was not ready. */
  readonly onAssigned: (facts: RequestFacts, assignment: Assignment) => void
}

/** A request that names a version is not touched. An arm that does not serve now is left out: its requests go to the first arm. */
export function rolloutChooser(settings: ChooserSettings): Chooser {
  const { router, versions, onAssigned } = settings
  return (facts, version, model) => {
    if (version !== '') return model.find(version)
    const assignment = router.route(new AskedFacts(facts, settings))
    const chosen = versions[assignment.arm] ?? ''
    if (assignment.arm === 0 || model.readyVersions.includes(chosen)) {
      onAssigned(facts, assignment)
      return model.find(chosen)
    }
    // Such a request was not drawn into stable: to judge it there would bend the comparison.
    onAssigned(facts, { arm: 0, bucket: assignment.bucket, isForced: true })
    return model.find(versions[0] ?? '')
  }
}

/** HOT: one per routed request. Everything is read only when a rule or a key asks for it. */
class AskedFacts implements RouteFacts {
  readonly #facts: RequestFacts
  readonly #settings: ChooserSettings

  constructor(facts: RequestFacts, settings: ChooserSettings) {
    this.#facts = facts
    this.#settings = settings
  }

  get protocol(): string {
    return this.#facts.protocol
  }

  get groups(): readonly string[] {
    return this.#settings.traitsOf(this.#facts).groups
  }

  get tenant(): string {
    return this.#settings.traitsOf(this.#facts).tenant
  }

  get principal(): string {
    return this.#facts.caller.principal
  }

  header(name: string): string | null {
    return this.#facts.header(name)
  }

  country(): string {
    return this.#settings.countryOf(this.#facts)
  }

  parameter(name: string): string | null {
    const value = this.#facts.head().parameters.get(name)
    return value === undefined ? null : String(value)
  }

  correlationId(): string {
    if (!this.#settings.hasSequences) return ''
    const { correlationId } = this.#facts.head()
    return correlationId === 0n ? '' : String(correlationId)
  }
}

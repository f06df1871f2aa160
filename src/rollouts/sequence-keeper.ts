// Sequences end where they began, also when another rollout of the model has begun, or none is left.

import type { Chooser, RequestFacts, VersionChoice } from '../model/choice.ts'
import type { ModelVersion } from '../model/model-version.ts'

/** A rollout or experiment with arms that may have sequences under way. */
export interface SequenceKeeper {
  readonly arms: readonly { readonly settings: { readonly model: string; readonly version: string } }[]
  /** Whether the request goes on with a sequence that one of the arms has. */
  holdsSequence(facts: RequestFacts): boolean
  /** The version for a request that names none. */
  choose(facts: RequestFacts, model: VersionChoice): ModelVersion
}

/** Requests of sequences that one of `keepers` has go there. `next` chooses for all others; null: the model does. */
export const keepingChooser =
  (keepers: readonly SequenceKeeper[], next: Chooser | null): Chooser =>
  (facts, version, model) => {
    const keeper = version === '' ? keepers.find((one) => one.holdsSequence(facts)) : undefined
    if (keeper !== undefined) return keeper.choose(facts, model)
    return next === null ? model.find(version) : next(facts, version, model)
  }

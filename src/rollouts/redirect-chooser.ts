// After a rollout to another model: requests for a model without a version go to a version of that other model.

import type { Chooser, ChoiceWatch } from '../model/choice.ts'
import type { ModelVersion } from '../model/model-version.ts'
import { begunSequence } from './rollout-chooser.ts'
import type { SequenceKeeper } from './sequence-keeper.ts'

/** `find` gives null while the other version does not serve: then the model serves its requests itself. */
export function redirectChooser(find: () => ModelVersion | null): Chooser {
  return (facts, version, model) => {
    if (version !== '') return model.find(version)
    const other = find()
    if (other === null) return model.find('')
    const sequence = other.config.sequenceBatching === null ? null : begunSequence(facts)
    const own = sequence === null ? null : model.versionWithSequence(sequence)
    if (own !== null) return own
    facts.watch = new RedirectedRequest(model.name, other)
    return other
  }
}

/** When requests go to the other version no more: sequences that began there end there. */
export const redirectKeeper = (
  to: { readonly model: string; readonly version: string },
  find: () => ModelVersion | null,
): SequenceKeeper => ({
  arms: [{ settings: to }],
  holdsSequence: (facts) => {
    const other = find()
    const id = other === null || other.config.sequenceBatching === null ? null : begunSequence(facts)
    return id !== null && other !== null && other.holdsSequence(id)
  },
  choose: (facts, model) => {
    const other = find()
    if (other === null) return model.find('')
    facts.watch = new RedirectedRequest(model.name, other)
    return other
  },
})

/** HOT: one per request. Answers have the name of the model that the client asked for. */
class RedirectedRequest implements ChoiceWatch {
  readonly modelName: string
  readonly version: ModelVersion
  readonly armName = ''
  readonly variant = ''
  readonly marks = null

  constructor(modelName: string, version: ModelVersion) {
    this.modelName = modelName
    this.version = version
  }

  exclude(): void {
    // Nobody judges it.
  }

  begun(): void {
    // Nobody counts it.
  }

  answered(): boolean {
    return true
  }
}

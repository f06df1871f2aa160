// After a rollout to another model: requests for a model without a version go to a version of that other model.

import type { Chooser, ChoiceWatch, RequestFacts } from '../model/choice.ts'
import type { ModelVersion } from '../model/model-version.ts'
import type { SequenceKeeper } from './sequence-keeper.ts'

/** `find` gives null while the other version does not serve: then the model serves its requests itself. */
export function redirectChooser(find: () => ModelVersion | null): Chooser {
  return (facts, version, model) => {
    if (version !== '') return model.find(version)
    const other = find()
    const own = other === null || other.config.sequenceBatching !== null ? model.find('') : null
    if (other === null || (own !== null && holdsSequence(own, facts))) return own as ModelVersion
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
    return other !== null && other.config.sequenceBatching !== null && holdsSequence(other, facts)
  },
  choose: (facts, model) => {
    const other = find()
    if (other === null) return model.find('')
    facts.watch = new RedirectedRequest(model.name, other)
    return other
  },
})

/** A sequence ends on the version that it began on. */
function holdsSequence(own: ModelVersion, facts: RequestFacts): boolean {
  const { correlationId, isSequenceStart } = facts.head()
  return correlationId !== 0n && correlationId !== '' && !isSequenceStart && own.holdsSequence(correlationId)
}

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

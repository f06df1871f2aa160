// The Chooser of a model with a live rollout: a thin layer between the Engine's Choice and the router.

import type { Chooser, RequestFacts } from '../model/choice.ts'
import type { ModelVersion } from '../model/model-version.ts'
import type { RequestOrigin } from '../model/request-origin.ts'
import { AskedFacts } from './asked-facts.ts'
import type { RolloutArm } from './rollout-arm.ts'
import type { RolloutRouter } from './rollout-router.ts'
import { RoutedRequest, type RoutedRequests } from './routed-request.ts'

type RoutingRollout = RoutedRequests & {
  readonly arms: readonly RolloutArm[]
  /** Throws where sequences of the arm may not go on. */
  requireSequences(arm: RolloutArm): void
}

type ChooserSettings = {
  readonly router: RolloutRouter
  readonly rollout: RoutingRollout
  /** Two capital letters, '' when it is not known. */
  readonly countryOf: (origin: RequestOrigin) => string
}

/**
 * A request that names a version is not touched. A request of a sequence that has begun goes to the arm that has the sequence.
 * An arm that does not serve now is left out: its requests go to the first arm.
 */
export function rolloutChooser({ router, rollout, countryOf }: ChooserSettings): Chooser {
  const { arms, stable } = rollout
  const asked = new AskedFacts(countryOf)
  const follow = (
    facts: RequestFacts,
    arm: RolloutArm,
    version: ModelVersion,
    bucket: number | null,
    isJudged: boolean,
  ) => {
    facts.watch = new RoutedRequest(rollout, arm, version, bucket, isJudged)
    return version
  }
  return (facts, version, model) => {
    if (version !== '') return model.find(version)
    const standard = stable.find()
    const hasSequences = standard.config.sequenceBatching !== null
    const sequence = hasSequences ? begunSequence(facts) : null
    if (sequence !== null) {
      const arm = armWith(arms, sequence)
      if (arm !== null) {
        rollout.requireSequences(arm)
        return follow(facts, arm, arm.find(), null, false)
      }
      // A version that left with an earlier rollout may still end its sequences.
      const own = model.versionWithSequence(sequence)
      if (own !== null) return own
    }
    const { arm: index, bucket, isForced, isDrawn } = router.route(asked.of(facts, hasSequences))
    asked.forget()
    const arm = arms[index] as RolloutArm
    const chosen = index === 0 ? standard : arm.ready()
    if (isDrawn) (chosen === null ? stable : arm).drawn++
    // Such a request was not drawn into stable: to judge it there would bend the comparison.
    return chosen === null
      ? follow(facts, stable, standard, bucket, false)
      : follow(facts, arm, chosen, bucket, !isForced)
  }
}

/** Null: no arm has the sequence. */
export const armWith = (arms: readonly RolloutArm[], sequence: bigint | string): RolloutArm | null =>
  arms.find((arm) => arm.ready()?.holdsSequence(sequence) === true) ?? null

/** The sequence that the request goes on with; null: it begins one, or belongs to none. Reads the head of the body. */
export function begunSequence(facts: RequestFacts): bigint | string | null {
  const { correlationId, isSequenceStart } = facts.head()
  return correlationId === 0n || correlationId === '' || isSequenceStart ? null : correlationId
}

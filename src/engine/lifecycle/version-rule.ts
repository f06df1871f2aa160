import type { ModelKey } from '../../model/model-key.ts'
import type { FoundModel } from '../../repository/model-repository.ts'

/**
 * Has the last word on which versions of a model are in memory, where the version policy alone does not decide: while a
 * version takes over step by step, and after it was withdrawn.
 */
export interface VersionRule {
  /** The versions to serve, lowest first; null: those of the version policy. `isRenewal`: a rollout asks, and nobody else. */
  select(key: ModelKey, polled: FoundModel, isRenewal: boolean): Promise<readonly string[] | null>
  /** A load of the model has ended. `isAsked`: somebody waits for it. The name of the rollout that it began; '': none. */
  afterLoad(name: string, isAsked: boolean): Promise<string>
}

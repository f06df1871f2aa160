import type { Action } from '../access/action.ts'
import type { Caller } from '../access/caller.ts'
import { visibleModels } from '../access/require-right.ts'
import type { ModelVersion } from '../model/model-version.ts'

type ServingEngine = { models(): Iterable<Pick<ModelVersion, 'name'>> }

/** The names of the models that serve, once each: those for which the caller has the right. */
export function servedNames(engine: ServingEngine, caller: Caller, action: Action): string[] {
  const names = [...new Set(Array.from(engine.models(), ({ name }) => name))]
  const isVisible = visibleModels(caller, action)
  return isVisible === null ? names : names.filter(isVisible)
}

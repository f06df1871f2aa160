import { splitModelKey, type ModelKey } from '../model/model-key.ts'
import { duplicateModelReason } from '../repository/model-repository.ts'
import type { ModelSource } from './lifecycle/model-source.ts'
import type { IndexEntry } from './serving/index-entry.ts'
import type { ServedModel } from './serving/served-model.ts'

/**
 * What is in the repositories and how it serves. A model that was never tried has neither version nor state. Triton says no
 * more of a model that could not be polled; `tellsFailedPolls` gives it a state and the reason.
 */
export async function repositoryIndex(
  repository: ModelSource,
  models: ReadonlyMap<ModelKey, ServedModel>,
  { isReadyOnly, tellsFailedPolls }: { readonly isReadyOnly: boolean; readonly tellsFailedPolls: boolean },
): Promise<IndexEntry[]> {
  const entries: IndexEntry[] = []
  const duplicates = await repository.duplicates?.()
  for (const key of await repository.names()) {
    const { name } = splitModelKey(key)
    // Triton lists a duplicate even when only ready models were asked for.
    if (duplicates?.has(key) === true) {
      entries.push({ name, version: '', state: 'UNAVAILABLE', reason: duplicateModelReason })
      continue
    }
    const model = models.get(key)
    const known = model?.versionEntries() ?? []
    // Triton knows a model whose load found no version, and lists its versions: none.
    if (known.length === 0 && model?.isNoModel === false && !tellsFailedPolls) continue
    const failure = tellsFailedPolls ? (model?.failure ?? '') : ''
    const state = failure === '' ? '' : 'UNAVAILABLE'
    entries.push(...(known.length > 0 ? known : [{ name, version: '', state, reason: failure } as const]))
  }
  if (!isReadyOnly) return entries
  return entries.filter(({ state, reason }) => state === 'READY' || reason === duplicateModelReason)
}

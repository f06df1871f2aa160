import { isEnsemble } from '../../config/known-backends.ts'
import type { ModelConfig, ModelEnsemblingStep } from '../../config/model-config.ts'
import { modelKey, modelLabel, splitModelKey, type ModelKey } from '../../model/model-key.ts'
import { keyOfModel, type PolledModel } from '../../repository/model-repository.ts'

/** Which ensembles call which models, by key. It holds what was last read of each ensemble, loaded or not. */
export class EnsembleGraph {
  readonly #parts = new Map<ModelKey, readonly ModelKey[]>()

  /** With namespaces, each step must name the namespace of the model that it calls. */
  note(model: PolledModel): void {
    const parts = partsOf(model)
    const key = keyOfModel(model)
    if (parts.length > 0) this.#parts.set(key, parts)
    else this.#parts.delete(key)
  }

  isEnsemble(key: ModelKey): boolean {
    return this.#parts.has(key)
  }

  /** The models an ensemble calls itself, each once; none for any other model. */
  partsOf(key: ModelKey): readonly ModelKey[] {
    return this.#parts.get(key) ?? []
  }

  /** All ensembles that call the model, directly or through others; direct ones first. */
  dependentsOf(key: ModelKey): ModelKey[] {
    const found = new Set<ModelKey>()
    const open = [key]
    for (let part = open.shift(); part !== undefined; part = open.shift()) {
      for (const [ensemble, parts] of this.#parts) {
        if (!parts.includes(part) || found.has(ensemble)) continue
        found.add(ensemble)
        open.push(ensemble)
      }
    }
    return [...found]
  }

  /** The ensembles of a namespace that call a model of this name, of whichever namespace. */
  callersIn(namespace: string, name: string): ModelKey[] {
    return [...this.#parts]
      .filter(([ensemble]) => splitModelKey(ensemble).namespace === namespace)
      .filter(([, parts]) => parts.some((part) => splitModelKey(part).name === name))
      .map(([ensemble]) => ensemble)
  }

  /** Triton's text when the ensemble calls itself through others; null when it does not. */
  cycleText(key: ModelKey): string | null {
    if (!this.#parts.has(key)) return null
    const seen = new Set<ModelKey>()
    const open = [...this.partsOf(key)]
    for (let part = open.shift(); part !== undefined; part = open.shift()) {
      if (seen.has(part)) continue
      seen.add(part)
      if (part === key || this.partsOf(part).includes(key)) {
        const [self, other] = [modelLabel(key), modelLabel(part)]
        return `circular dependency between ensembles: ${self} -> ... -> ${other} -> ${self}`
      }
      open.push(...this.partsOf(part))
    }
    return null
  }

  /** How deep ensembles are nested in this model; 0 for a model that is no ensemble. */
  depthOf(key: ModelKey): number {
    const known = new Map<ModelKey, number>()
    const depth = (model: ModelKey): number => {
      const found = known.get(model)
      if (found !== undefined) return found
      // A model counts 0 while its depth is being computed, so that a cycle ends.
      known.set(model, 0)
      const deepest = this.partsOf(model).reduce((most, part) => Math.max(most, 1 + depth(part)), 0)
      known.set(model, deepest)
      return deepest
    }
    return depth(key)
  }

  /** Models before the ensembles that call them; otherwise the order stays. */
  partsFirst(keys: readonly ModelKey[]): ModelKey[] {
    const depths = new Map(keys.map((key) => [key, this.depthOf(key)]))
    return keys.toSorted((a, b) => (depths.get(a) ?? 0) - (depths.get(b) ?? 0))
  }
}

function partsOf(model: PolledModel): readonly ModelKey[] {
  if (model.error !== null || !isEnsemble(model.config)) return []
  return [...new Set(stepsOf(model.config).map((step) => keyOfStep(step, model.namespace)))]
}

export const stepsOf = (config: ModelConfig): readonly ModelEnsemblingStep[] => config.ensembleScheduling?.step ?? []

/** The model that a step calls; `namespace` is the ensemble's own. */
export function keyOfStep(step: ModelEnsemblingStep, namespace: string | undefined): ModelKey {
  return modelKey(namespace === undefined ? undefined : step.modelNamespace, step.modelName)
}

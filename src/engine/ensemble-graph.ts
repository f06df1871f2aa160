import { isEnsemble } from '../model/known-backends.ts'
import type { ModelConfig } from '../model/model-config.ts'
import type { PolledModel } from '../repository/local-repository.ts'

/** Which ensembles call which models. Kept from what was last read of each, whether it serves or not. */
export class EnsembleGraph {
  readonly #parts = new Map<string, readonly string[]>()

  note(model: PolledModel): void {
    const parts = partsOf(model)
    if (parts.length > 0) this.#parts.set(model.name, parts)
    else this.#parts.delete(model.name)
  }

  isEnsemble(name: string): boolean {
    return this.#parts.has(name)
  }

  /** The models an ensemble calls itself, each once; none for any other model. */
  partsOf(name: string): readonly string[] {
    return this.#parts.get(name) ?? []
  }

  /** All that call the model, directly or through others, those that call it directly first. */
  dependentsOf(name: string): string[] {
    const found = new Set<string>()
    const open = [name]
    for (let part = open.shift(); part !== undefined; part = open.shift()) {
      for (const [ensemble, parts] of this.#parts) {
        if (!parts.includes(part) || found.has(ensemble)) continue
        found.add(ensemble)
        open.push(ensemble)
      }
    }
    return [...found]
  }

  /** Triton's text when the ensemble calls itself through others; null when it does not. */
  cycleText(name: string): string | null {
    if (!this.#parts.has(name)) return null
    const seen = new Set<string>()
    const open = [...this.partsOf(name)]
    for (let part = open.shift(); part !== undefined; part = open.shift()) {
      if (seen.has(part)) continue
      seen.add(part)
      if (part === name || this.partsOf(part).includes(name)) {
        return `circular dependency between ensembles: ${name} -> ... -> ${part} -> ${name}`
      }
      open.push(...this.partsOf(part))
    }
    return null
  }

  /** How many ensembles lie one inside the other below this model; 0 for a model that is none. */
  depthOf(name: string): number {
    const known = new Map<string, number>()
    const depth = (model: string): number => {
      const found = known.get(model)
      if (found !== undefined) return found
      // While it is being worked out it counts 0, so that a cycle ends.
      known.set(model, 0)
      const deepest = this.partsOf(model).reduce((most, part) => Math.max(most, 1 + depth(part)), 0)
      known.set(model, deepest)
      return deepest
    }
    return depth(name)
  }

  /** Models before the ensembles that call them; otherwise the order stays. */
  partsFirst<T extends { readonly name: string }>(models: readonly T[]): T[] {
    const depths = new Map(models.map(({ name }) => [name, this.depthOf(name)]))
    return models.toSorted((a, b) => (depths.get(a.name) ?? 0) - (depths.get(b.name) ?? 0))
  }
}

function partsOf(model: PolledModel): readonly string[] {
  if (model.error !== null || !isEnsemble(model.config)) return []
  return composingNames(model.config)
}

export const composingNames = (config: ModelConfig): string[] => [
  ...new Set((config.ensembleScheduling?.step ?? []).map((step) => step.modelName)),
]

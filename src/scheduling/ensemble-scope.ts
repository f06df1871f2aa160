import type { EnsembleStep } from '../config/ensemble-plan.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { Tensor } from '../tensor/tensor.ts'

/**
 * A set of tensors: those of one request to an ensemble, or those of one response of a decoupled step. Their memory
 * belongs to the responses of steps, and outputs may be views on inputs. So all of it is released together, once nobody
 * uses any of the tensors.
 */
export class EnsembleScope {
  readonly parent: EnsembleScope | null
  /** Null: the tensor will not come, as an optional input that was left out. No entry: the tensor may still come. */
  readonly tensors = new Map<string, Tensor | null>()
  /** Steps that have not been started on these tensors. */
  waiting: EnsembleStep[]
  readonly #held: InferenceResponse[] = []
  #referenceCount = 1

  constructor(parent: EnsembleScope | null, waiting: EnsembleStep[]) {
    this.parent = parent
    this.waiting = waiting
    parent?.retain()
  }

  find(name: string): Tensor | null | undefined {
    const found = this.tensors.get(name)
    return found === undefined && this.parent !== null ? this.parent.find(name) : found
  }

  hasAll(names: readonly string[]): boolean {
    for (let i = 0; i < names.length; i++) if (this.find(names[i] as string) === undefined) return false
    return true
  }

  /** Takes the first step with all inputs known out of `waiting`; null when there is none. */
  takeReady(): EnsembleStep | null {
    const index = this.waiting.findIndex((step) => step.inputs.every(({ tensor }) => this.find(tensor) !== undefined))
    return index < 0 ? null : (this.waiting.splice(index, 1)[0] as EnsembleStep)
  }

  hold(response: InferenceResponse): void {
    this.#held.push(response)
  }

  /** The maker of a scope holds the first reference. */
  retain(): void {
    this.#referenceCount++
  }

  drop(): void {
    this.#referenceCount--
    if (this.#referenceCount > 0) return
    for (const response of this.#held.splice(0)) response.release()
    this.parent?.drop()
  }
}

import type { ModelLog } from './model.ts'
import { SharedState } from './shared-state.ts'

/** What the models of a custom backend share in one Worker: the state of the backend, and the states of the models. */
export class BackendRoom {
  /** The log of the backend and its models, which outlive their instances. Null: the log of the one instance. */
  readonly log: ModelLog | null
  readonly backend = new SharedState()
  readonly #models = new Map<string, SharedState>()
  #finalize: (() => unknown) | null = null
  readonly #isShared: boolean

  /** `isShared`: the backend stays initialised without models, until `end`. */
  constructor(log: ModelLog | null, isShared: boolean) {
    this.log = log
    this.#isShared = isShared
  }

  /** `load` names one load of a version. Its instances share a state; a reload has another. */
  model(load: string): SharedState {
    let model = this.#models.get(load)
    if (model === undefined) this.#models.set(load, (model = new SharedState()))
    return model
  }

  forget(load: string): void {
    this.#models.delete(load)
  }

  /** Called by each instance that has the state of the backend. */
  async hold(finalize: () => unknown): Promise<void> {
    if (!this.#isShared || this.#finalize !== null) return
    this.#finalize = finalize
    // The room is a user itself.
    await this.backend.enter(() => undefined)
  }

  /** No instance is left, and no more come. */
  async end(): Promise<void> {
    const finalize = this.#finalize
    this.#finalize = null
    if (finalize !== null) await this.backend.leave(finalize)
  }
}

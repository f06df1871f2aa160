import { ServerError } from '../../base/server-error.ts'
import { modelLabel, type ModelKey } from '../../model/model-key.ts'

/** Changes of one model that wait. Each may load it anew, also for a client that has gone, and the next one waits for all of them. */
const mostWaitingChanges = 32

/** Changes of one model follow each other; those of different models do not wait for each other. */
export class ChangeQueue {
  readonly #last = new Map<ModelKey, Promise<unknown>>()
  /** How many changes of each of these models are under way or wait. */
  readonly #counts = new Map<ModelKey, number>()
  /** Models that a request has woken: each is read before its change begins. */
  readonly #waking = new Set<Promise<void>>()
  /** What goes on beside the changes: old versions that drain. */
  readonly #background = new Set<Promise<unknown>>()

  /** Whether a change of the model is under way. */
  has(key: ModelKey): boolean {
    return this.#last.has(key)
  }

  /** Rejects with UNAVAILABLE where too many changes of the model wait. */
  async run<T>(key: ModelKey, act: () => Promise<T>): Promise<T> {
    this.#enter(key)
    const before = this.#last.get(key) ?? Promise.resolve()
    const change = before.then(act, act)
    const settled = change.catch(() => undefined)
    this.#last.set(key, settled)
    try {
      return await change
    } finally {
      if (this.#last.get(key) === settled) this.#last.delete(key)
      this.#leave(key)
    }
  }

  /** For a change that may not take its place yet: it counts among those that wait. `until` does not reject. */
  async wait(key: ModelKey, until: Promise<unknown>): Promise<void> {
    this.#enter(key)
    await until
    this.#leave(key)
  }

  /** `waking` does not reject. */
  include(waking: Promise<void>): void {
    this.#waking.add(waking)
    void waking.then(() => this.#waking.delete(waking))
  }

  inBackground<T>(work: Promise<T>): Promise<T> {
    const entry = work.then(
      () => undefined,
      () => undefined,
    )
    this.#background.add(entry)
    void entry.then(() => this.#background.delete(entry))
    return work
  }

  /** Resolves when no change is under way and no model is being woken. */
  async settled(): Promise<void> {
    while (this.#last.size > 0 || this.#waking.size > 0) {
      await Promise.all([...this.#last.values(), ...this.#waking])
    }
  }

  /** Resolves when nothing goes on in the background. */
  async quiet(): Promise<void> {
    while (this.#background.size > 0) await Promise.all(this.#background)
  }

  #enter(key: ModelKey): void {
    const count = this.#counts.get(key) ?? 0
    if (count > mostWaitingChanges) throw tooManyChanges(key)
    this.#counts.set(key, count + 1)
  }

  #leave(key: ModelKey): void {
    const left = (this.#counts.get(key) ?? 1) - 1
    if (left === 0) this.#counts.delete(key)
    else this.#counts.set(key, left)
  }
}

const tooManyChanges = (key: ModelKey): ServerError =>
  ServerError.withoutStack(
    'UNAVAILABLE',
    `${mostWaitingChanges} loads and unloads of model '${modelLabel(key)}' wait already, the maximum: try again later`,
    1,
  )

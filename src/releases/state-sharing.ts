// Writes the states of one rollout or experiment for the other servers.

import type { Log } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'
import type { ReleaseRecord } from './release-record.ts'
import type { SharedRollouts } from './shared-rollouts.ts'

/** The run whose states are shared. */
type Sharer = {
  readonly record: ReleaseRecord
  /** The state keeps everything but its generation. */
  setGeneration(generation: number): void
  /** Takes over what another server has written. */
  adopt(record: ReleaseRecord): void
}

export class StateSharing {
  readonly #parts: { readonly shared: SharedRollouts | null; readonly log: Log }
  readonly #run: Sharer
  #running: Promise<void> | null = null
  /** The generation of the state that the shared store has; 0: it has none. */
  generation: number

  constructor(parts: { readonly shared: SharedRollouts | null; readonly log: Log }, run: Sharer, generation: number) {
    this.#parts = parts
    this.#run = run
    this.generation = generation
  }

  /** Whoever was quicker wins, and the run takes over what it wrote. */
  push(): void {
    const { shared, log } = this.#parts
    if (shared === null || shared.isAway || this.#running !== null) return
    this.#running = this.#pushAll(shared)
      .catch((reason: unknown) => log.warning(`rollout '${this.#run.record.name}' is not shared: ${messageOf(reason)}`))
      .finally(() => (this.#running = null))
  }

  async #pushAll(shared: SharedRollouts): Promise<void> {
    while (generationOf(this.#run.record) !== this.generation) {
      const generation = Math.max(generationOf(this.#run.record), this.generation + 1)
      if (generation !== generationOf(this.#run.record)) this.#run.setGeneration(generation)
      const kept = await shared.write(this.#run.record, this.generation)
      if (kept === null) this.generation = generation
      else this.#run.adopt(kept)
    }
  }
}

/** Experiments that an older server kept have no generation. */
export const generationOf = ({ state }: ReleaseRecord): number => state.generation ?? 1

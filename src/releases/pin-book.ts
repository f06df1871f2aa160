// The pins of all models: which version is the standard one, which versions are held, which labels there are.

import { noPins, type HeldVersion, type ModelPins } from './release-record.ts'
import type { ModelFleet } from './model-fleet.ts'
import type { ReleaseStore } from './release-store.ts'

/** A version that is held for longer than so many others is forgotten. */
const mostHeld = 100

export class PinBook {
  readonly #fleet: ModelFleet
  readonly #store: ReleaseStore
  readonly #byModel = new Map<string, ModelPins>()

  constructor(fleet: ModelFleet, store: ReleaseStore) {
    this.#fleet = fleet
    this.#store = store
  }

  /** What was kept by the last run of the server. */
  restore(all: readonly ModelPins[]): void {
    for (const pins of all) {
      this.#byModel.set(pins.model, pins)
      this.#fleet.setStandard(pins.model, pins.standard)
    }
  }

  /** Null: nothing is known of the model. */
  of(model: string): ModelPins | null {
    return this.#byModel.get(model) ?? null
  }

  /** The pins of the model in this repository. Pins of a model of the same name elsewhere do not count. */
  in(model: string, repository: string): ModelPins | null {
    const pins = this.of(model)
    return pins?.repository === repository ? pins : null
  }

  /** The Engine knows at once; resolves when a restart would know, too. */
  async change(model: string, repository: string, part: Partial<ModelPins>): Promise<void> {
    const pins = { ...(this.in(model, repository) ?? noPins(model, repository)), ...part }
    this.#byModel.set(model, pins)
    this.#fleet.setStandard(model, pins.standard)
    await this.#store.savePins(pins)
  }

  async hold(model: string, repository: string, held: HeldVersion): Promise<void> {
    const others = (this.in(model, repository)?.held ?? []).filter(({ version }) => version !== held.version)
    await this.change(model, repository, { held: [...others, held].slice(-mostHeld) })
  }

  async release(model: string, repository: string, version: string): Promise<void> {
    const pins = this.in(model, repository)
    if (pins?.held.some((one) => one.version === version) !== true) return
    await this.change(model, repository, { held: pins.held.filter((one) => one.version !== version) })
  }
}

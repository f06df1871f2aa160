// The pins of all models: which version is the standard one, which versions are held, which labels there are.

import { noPins, type HeldVersion, type ModelPins, type PinChange, type VersionOfModel } from './release-record.ts'
import type { ModelFleet } from './model-fleet.ts'
import type { ReleaseStore } from './release-store.ts'

/** A version that is held for longer than so many others is forgotten. */
const mostHeld = 100
/** Models of other servers. Beyond it a model that comes later gets its pins with their next change. */
const mostOffered = 10_000

export class PinBook {
  readonly #fleet: ModelFleet
  readonly #store: ReleaseStore
  readonly #changed: (model: string, change: PinChange) => void
  readonly #byModel = new Map<string, ModelPins>()
  /** Pins of other servers for models that are not in the repositories of this one. */
  readonly #offered = new Map<string, ModelPins>()

  /** `changed` hears of every change that this server makes. */
  constructor(fleet: ModelFleet, store: ReleaseStore, changed: (model: string, change: PinChange) => void) {
    this.#fleet = fleet
    this.#store = store
    this.#changed = changed
  }

  /** What was kept by the last run of the server. */
  restore(all: readonly ModelPins[]): void {
    for (const pins of all) {
      this.#byModel.set(pins.model, pins)
      this.#apply(pins)
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

  /** Versions of the model that serve the requests of other models. */
  servingOthers(model: string): string[] {
    return this.#byModel
      .values()
      .flatMap(({ instead }) => (instead?.model === model ? [instead.version] : []))
      .toArray()
  }

  /** Who serves the requests of the model without a version; null: the model does not serve. */
  currentOf(model: string): VersionOfModel | null {
    const instead = this.of(model)?.instead ?? null
    if (instead !== null) return instead
    const version = this.#fleet.standardOf(model)
    return version === '' ? null : { model, version }
  }

  /** From now on this version serves the requests of the model without a version. Nothing is kept. */
  serve(model: string, by: VersionOfModel): void {
    if (by.model === model) this.#fleet.setStandard(model, by.version)
    this.#fleet.setInstead(model, by.model === model ? null : by)
  }

  /** Tells the Engine what is pinned. */
  #apply({ model, standard, instead = null }: ModelPins): void {
    this.#fleet.setStandard(model, standard)
    this.#fleet.setInstead(model, instead)
  }

  /** The Engine knows at once; resolves when a restart would know, too. */
  async change(model: string, repository: string, part: PinChange): Promise<void> {
    const pins = { ...(this.in(model, repository) ?? noPins(model, repository)), ...part }
    const kept = this.adopt(pins)
    this.#changed(model, part)
    await kept
  }

  /** What another server has changed. */
  async adopt(pins: ModelPins): Promise<void> {
    this.#offered.delete(pins.model)
    this.#byModel.set(pins.model, pins)
    this.#apply(pins)
    await this.#store.savePins(pins)
  }

  /** Other servers have pinned versions of a model that this server does not have. */
  offer(pins: ModelPins): void {
    if (this.#offered.size < mostOffered) this.#offered.set(pins.model, pins)
  }

  /** The model is here now, and is about to be loaded. */
  async welcome(model: string, repository: string): Promise<void> {
    const pins = this.#offered.get(model)
    if (pins === undefined) return
    this.#offered.delete(model)
    await this.adopt({ ...pins, repository })
  }

  async hold(model: string, repository: string, held: HeldVersion): Promise<void> {
    const others = (this.in(model, repository)?.held ?? []).filter(
      ({ version, model: of }) => version !== held.version || of !== held.model,
    )
    await this.change(model, repository, { held: [...others, held].slice(-mostHeld) })
  }

  async release(model: string, repository: string, released: HeldVersion): Promise<void> {
    const held = this.in(model, repository)?.held ?? []
    if (!held.includes(released)) return
    await this.change(model, repository, { held: held.filter((one) => one !== released) })
  }
}

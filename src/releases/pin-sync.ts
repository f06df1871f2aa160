// Keeps the pins of this server in line with those of the other servers: default versions, held versions, labels.

import { isDeepStrictEqual } from 'node:util'
import type { Log } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'
import type { ModelFleet } from './model-fleet.ts'
import type { PinBook } from './pin-book.ts'
import type { ModelPins, PinChange } from './release-record.ts'
import type { SharedRollouts } from './shared-rollouts.ts'

type PinSyncParts = {
  readonly log: Log
  readonly fleet: ModelFleet
  readonly pins: PinBook
  readonly shared: SharedRollouts
}

export class PinSync {
  readonly #parts: PinSyncParts
  /** What this server has changed and the store does not have yet: it goes before what the store has. */
  readonly #unsent = new Map<string, PinChange>()
  /** Models that were being loaded when their pins came: which versions they serve is not known yet. */
  readonly #unsettled = new Set<string>()
  #revision = ''

  constructor(parts: PinSyncParts) {
    this.#parts = parts
  }

  /** This server has changed them. While the store is away they wait for the next exchange. */
  changed(model: string, change: PinChange): void {
    this.#unsent.set(model, { ...this.#unsent.get(model), ...change })
    this.#push().catch(() => undefined)
  }

  /** Rejects while the store is away. */
  async exchange(): Promise<void> {
    await this.#push()
    for (const model of this.#unsettled) await this.#settle(model)
    const news = await this.#parts.shared.readPins(this.#revision)
    if (news === null) return
    for (const pins of news.pins) await this.#adopt(pins)
    this.#revision = news.revision
  }

  async #push(): Promise<void> {
    for (const [model, change] of this.#unsent) {
      await this.#parts.shared.writePins(model, change)
      if (this.#unsent.get(model) === change) this.#unsent.delete(model)
    }
  }

  /** A server may have the model elsewhere, or not at all: then the pins wait for the model. */
  async #adopt(pins: ModelPins): Promise<void> {
    const { fleet, pins: book } = this.#parts
    const { model } = pins
    const repository = (await fleet.poll(model).catch(() => null))?.repositoryPath
    if (repository === undefined) {
      book.offer(pins)
      return
    }
    if (this.#unsent.has(model)) return
    const own = { ...pins, repository }
    if (isDeepStrictEqual(own, book.in(model, repository))) return
    await book.adopt(own)
    await this.#settle(model)
  }

  /** Loads the pinned version where the model serves another one. A model that is being loaded is looked at again. */
  async #settle(model: string): Promise<void> {
    const { fleet, pins, log } = this.#parts
    const standard = pins.of(model)?.standard ?? ''
    const serving = fleet.standardOf(model)
    if (standard !== '' && serving === '') {
      this.#unsettled.add(model)
      return
    }
    this.#unsettled.delete(model)
    if (standard === '' || serving === standard) return
    await fleet.renew(model).catch((reason: unknown) => {
      log.warning(`version ${standard} of model '${model}', which other servers serve, could not be loaded: ${messageOf(reason)}`) // prettier-ignore
    })
  }
}

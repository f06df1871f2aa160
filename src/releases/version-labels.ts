// Names for versions of models. They are kept with the pins of the model.

import { describedValue } from '../base/described-value.ts'
import { ServerError } from '../base/server-error.ts'
import type { ModelFleet } from './model-fleet.ts'
import type { PinBook } from './pin-book.ts'

/** Rollouts keep these two. */
const keptLabels = ['stable', 'candidate']
const mostLabels = 100

export class VersionLabels {
  readonly #fleet: ModelFleet
  readonly #pins: PinBook
  readonly #candidateOf: (model: string) => string | null

  /** `candidateOf` tells the candidate of the model's live rollout. */
  constructor(fleet: ModelFleet, pins: PinBook, candidateOf: (model: string) => string | null) {
    this.#fleet = fleet
    this.#pins = pins
    this.#candidateOf = candidateOf
  }

  /** By label. Throws NOT_FOUND for a model that was never loaded. */
  of(name: string): Readonly<Record<string, string>> {
    const model = this.#requireModel(name)
    const standard = this.#fleet.standardOf(model)
    const candidate = this.#candidateOf(model)
    return {
      ...this.#pins.of(model)?.labels,
      ...(standard === '' ? {} : { stable: standard }),
      ...(candidate === null ? {} : { candidate }),
    }
  }

  /** The version of a label. Throws NOT_FOUND. */
  version(name: string, label: string): string {
    const labels = this.of(name)
    if (Object.hasOwn(labels, label)) return labels[label] as string
    const known = Object.keys(labels).join(', ')
    throw ServerError.withoutStack('NOT_FOUND', `model '${name}' has no label '${label.slice(0, 100)}', it has ${known === '' ? 'none' : known}`) // prettier-ignore
  }

  /** `{"champion": 3}`; null takes a label away. Throws INVALID_ARG. */
  async set(name: string, changes: Readonly<Record<string, unknown>>): Promise<void> {
    const model = this.#requireModel(name)
    // All may be taken away and as many others be set.
    if (Object.keys(changes).length > 2 * mostLabels) throw tooMany(model)
    const { versions, repositoryPath } = await this.#fleet.poll(model)
    const labels: Record<string, string> = { ...this.#pins.in(model, repositoryPath)?.labels }
    for (const [label, value] of Object.entries(changes)) {
      if (keptLabels.includes(label)) throw wrong(`the label '${label}' is kept by rollouts: choose another name`)
      if (!/^[A-Za-z][\w.-]{0,62}$/.test(label)) throw wrong(`a label has 1 to 63 letters, digits, _, - and ., and begins with a letter, got '${label.slice(0, 80)}'`) // prettier-ignore
      if (value === null) {
        delete labels[label]
        continue
      }
      const version = typeof value === 'number' || typeof value === 'string' ? String(value) : describedValue(value)
      if (!versions.includes(version)) throw wrong(`model '${model}' has no version ${version.slice(0, 40)}, it has ${versions.join(', ')}`) // prettier-ignore
      labels[label] = version
    }
    if (Object.keys(labels).length > mostLabels) throw tooMany(model)
    await this.#pins.change(model, repositoryPath, { labels })
  }

  #requireModel(name: string): string {
    const served = this.#fleet.engine.servedModel(name)
    if (served === undefined) throw ServerError.withoutStack('NOT_FOUND', `there is no model '${name.slice(0, 200)}'`)
    return served.label
  }
}

const wrong = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)
const tooMany = (model: string): ServerError => wrong(`model '${model}' has at most ${mostLabels} labels`)

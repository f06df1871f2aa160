// Every model that was ever tried, and which of them a name stands for.

import { nearestWord } from '../../base/nearest-word.ts'
import { percentDecoded } from '../../base/percent-decoded.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Chooser } from '../../model/choice.ts'
import { modelLabel, splitModelKey, type ModelKey } from '../../model/model-key.ts'
import { worded } from '../../model/worded-error.ts'
import { ServedModel } from '../serving/served-model.ts'

/** A wrong name is compared with so many models at most, and not at all when it is longer: any client can send wrong names. */
const mostCompared = 256
const longestCompared = 128

export class ModelDirectory {
  readonly hasNamespaces: boolean
  readonly #models = new Map<ModelKey, ServedModel>()
  /** With namespaces: the names, and names in full, that stand for exactly one model. */
  readonly #alone = new Map<string, ServedModel>()
  /** With namespaces: the models of each name that were found and not unloaded since. */
  readonly #listed = new Map<string, Set<ServedModel>>()
  /** By name, or name in full. A Chooser belongs to the name: it may be set before the model is first loaded. */
  readonly #choosers = new Map<string, Chooser>()

  /** By name: the version that requests without a version get. */
  readonly #standards = new Map<string, string>()

  constructor(hasNamespaces: boolean) {
    this.hasNamespaces = hasNamespaces
  }

  get byKey(): ReadonlyMap<ModelKey, ServedModel> {
    return this.#models
  }

  /** The model that a client means by a name. Every request looks its model up in this one map. */
  get byName(): ReadonlyMap<string, ServedModel> {
    return this.hasNamespaces ? this.#alone : this.#models
  }

  /** The model is made when it is first asked for. */
  open(key: ModelKey): ServedModel {
    const known = this.#models.get(key)
    if (known !== undefined) return known
    const model = new ServedModel(key)
    model.chooser = this.#choosers.get(modelLabel(key)) ?? this.#choosers.get(splitModelKey(key).name) ?? null
    model.setStandard(this.#standards.get(modelLabel(key)) ?? this.#standards.get(splitModelKey(key).name) ?? '')
    this.#models.set(key, model)
    return model
  }

  /** Nothing of the model is kept, unless a version of it serves or ends. */
  forget(key: ModelKey): void {
    const model = this.#models.get(key)
    if (model?.isOver !== true) return
    this.list(model, false)
    this.#models.delete(key)
  }

  /** From now on `chooser` chooses the versions of every model of that name; null removes the Chooser. */
  setChooser(name: string, chooser: Chooser | null): void {
    if (chooser === null) this.#choosers.delete(nameInFull(name))
    else this.#choosers.set(nameInFull(name), chooser)
    for (const key of this.allOf(name)) {
      const model = this.#models.get(key)
      if (model !== undefined) model.chooser = chooser
    }
  }

  /** From now on requests without a version get this version of the model; '': the highest one that serves. */
  setStandard(name: string, version: string): void {
    if (version === '') this.#standards.delete(nameInFull(name))
    else this.#standards.set(nameInFull(name), version)
    for (const key of this.allOf(name)) this.#models.get(key)?.setStandard(version)
  }

  /** All models of a name, listed or not. */
  allOf(name: string): ModelKey[] {
    if (!this.hasNamespaces) return [name]
    const inFull = nameInFull(name)
    const isMeant = (model: ServedModel): boolean => model.name === name || model.label === inFull || model.key === name
    return [...this.#models.values()].filter(isMeant).map(({ key }) => key)
  }

  listedOf(name: string): ModelKey[] {
    return [...(this.#listed.get(name) ?? [])].map(({ key }) => key)
  }

  /** From now on the name stands for this model too, or no longer does. */
  list(model: ServedModel, isListed: boolean): void {
    if (!this.hasNamespaces) return
    const { name, label } = model
    const listed = this.#listed.get(name) ?? new Set()
    if (isListed) this.#listed.set(name, listed.add(model))
    else listed.delete(model)
    if (label !== name) {
      for (const inFull of [label, encodeURIComponent(label)]) {
        if (isListed) this.#alone.set(inFull, model)
        else this.#alone.delete(inFull)
      }
    }
    const [only] = listed
    if (listed.size === 1 && only !== undefined) this.#alone.set(name, only)
    else this.#alone.delete(name)
  }

  /** The model that was most likely meant, of those that can answer; null: none is near. */
  #near(name: string, isVisible: (model: string) => boolean): string | null {
    if (name.length > longestCompared) return null
    const known: string[] = []
    for (const model of this.#models.values()) {
      if (model.offered.length === 0 || !isVisible(model.name)) continue
      if (model.name.toLowerCase() === name.toLowerCase()) return model.name
      if (known.push(model.name) === mostCompared) break
    }
    return nearestWord(name, known)
  }

  /** Why nothing is found under a name, in Triton's words. */
  unknown(name: string): ServerError {
    const listed = this.#listed.get(name)
    if (listed === undefined) {
      if (!this.hasNamespaces) return worded('unknownModel', { name, near: (isVisible) => this.#near(name, isVisible) })
      return ServerError.withoutStack('INVALID_ARG', `Request for unknown model: '${name}' is not found`)
    }
    if (listed.size === 0) {
      return ServerError.withoutStack('NOT_FOUND', `Identifier of model '${name}' is not found in global map`)
    }
    return ServerError.withoutStack(
      'INVALID_ARG',
      `There are ${listed.size} identifiers of model '${name}' in global map, model namespace must be provided to resolve ambiguity.`,
    )
  }
}

/** In a URL the slashes and colons of a name in full are encoded, and front ends pass names on as they came. */
export function nameInFull(name: string): string {
  return /%3a%3a/i.test(name) ? (percentDecoded(name) ?? name) : name
}

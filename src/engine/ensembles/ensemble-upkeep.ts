// Keeps ensembles in step with the models they call: loads parts first, takes ensembles down before their parts, and
// brings them back with them. It knows what to do with which model and when; the Engine does it.

import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { changeOrigin, type ChangeOrigin } from '../../model/change-origin.ts'
import { isEnsemble } from '../../config/known-backends.ts'
import { modelKey, modelLabel, splitModelKey, type ModelKey } from '../../model/model-key.ts'
import { keyOfModel, type FoundModel, type PolledModel } from '../../repository/model-repository.ts'
import type { LoadOptions } from '../serving/load-options.ts'
import { EnsembleGraph, stepsOf } from './ensemble-graph.ts'
import { ensembleProblem, missingPart, type ServedModels } from './ensemble-loading.ts'

export type Unloading = { readonly gone: Promise<void> }

type EnsembleUpkeepDependencies = {
  readonly log: Log
  readonly models: ServedModels
  /** Null when no repository has it. */
  poll(key: ModelKey): Promise<PolledModel | null>
  /** The models that a name stands for: with namespaces any number of them. */
  keysOf(name: string): Promise<readonly ModelKey[]>
  /** One model by itself. False when it served already, and from the same files. */
  load(model: PolledModel, options: LoadOptions): Promise<boolean>
  /** Whether it waits for its first request. */
  isLazy(model: FoundModel): boolean
  /** One model by itself. */
  unload(key: ModelKey, origin?: ChangeOrigin): Promise<Unloading>
}

export class EnsembleUpkeep {
  readonly #dependencies: EnsembleUpkeepDependencies
  readonly #graph = new EnsembleGraph()
  /** Models that were asked for by name, and not just because an ensemble calls them. */
  readonly #askedFor = new Set<ModelKey>()
  /** Ensembles that do not serve for want of a part: they come back with it. */
  readonly #heldBack = new Set<ModelKey>()

  constructor(dependencies: EnsembleUpkeepDependencies) {
    this.#dependencies = dependencies
  }

  isEnsemble(key: ModelKey): boolean {
    return this.#graph.isEnsemble(key)
  }

  /** Whether it is an ensemble that comes back when a part does. */
  isHeldBack(key: ModelKey): boolean {
    return this.#heldBack.has(key)
  }

  /** Whether an ensemble that serves calls it. */
  isCalled(key: ModelKey): boolean {
    return this.#graph.dependentsOf(key).some((ensemble) => this.#isServing(ensemble))
  }

  /** Throws, with Triton's texts, when the model is an ensemble that cannot serve now; `note` gets the reason first. */
  requireParts(model: FoundModel, note: (reason: string) => void): void {
    const key = keyOfModel(model)
    this.#heldBack.delete(key)
    if (!this.isEnsemble(key)) return
    const { models, log } = this.#dependencies
    const cycle = this.#graph.cycleText(key)
    const missing = cycle === null ? missingPart(key, this.#graph, models) : null
    const failure = cycle ?? missing ?? ensembleProblem(model, this.#graph, models)
    if (failure === null) return
    this.#heldBack.add(key)
    note(failure)
    log.error(`Invalid argument: ${failure}`)
    const label = modelLabel(key)
    // Of what is wrong with the graph itself Triton's answer says little, and its log the rest.
    if (missing !== null && model.namespace === undefined) {
      throw new ServerError('INTERNAL', `failed to load '${label}', failed to poll from model repository`)
    }
    if (cycle !== null) throw new ServerError('INTERNAL', `failed to load '${label}', no version is available`)
    throw new ServerError('INVALID_ARG', `load failed for model '${label}': ${failure}\n`)
  }

  /** Loads models and what they call, at most `limit` at a time, each ensemble after its parts. Never rejects. */
  async loadAll(asked: readonly PolledModel[], limit: number): Promise<ServerError | null> {
    for (const model of asked) this.#askedFor.add(keyOfModel(model))
    const queue = await this.#withParts(asked)
    const awake = this.#mustBeAwake(queue)
    const settled = new Map(queue.map((model) => [keyOfModel(model), Promise.withResolvers<void>()]))
    let failure: ServerError | null = null
    const loadNext = async (): Promise<void> => {
      for (let model = queue.shift(); model !== undefined; model = queue.shift()) {
        const key = keyOfModel(model)
        // Parts come first in the queue, so somebody is at work on them; those of a cycle wait for nobody.
        const parts = this.#graph.cycleText(key) === null ? this.#graph.partsOf(key) : []
        for (const part of parts) await settled.get(part)?.promise
        await this.#dependencies
          .load(model, { isForced: false, mayStayAsleep: !awake.has(key), origin: changeOrigin('start') })
          .catch((reason: unknown) => {
            failure ??= ServerError.from(reason)
            this.#logFailure(key, reason)
          })
        settled.get(key)?.resolve()
      }
    }
    await Promise.all(Array.from({ length: Math.max(1, limit) }, loadNext))
    return failure
  }

  /** Loads one model, before it what it calls, and after it the ensembles that call what has changed. */
  async load(model: PolledModel, options: LoadOptions): Promise<void> {
    const { mayStayAsleep = false } = options
    const key = keyOfModel(model)
    this.#askedFor.add(key)
    const staysAsleep = mayStayAsleep && !this.#isServing(key) && !this.isCalled(key)
    if (staysAsleep && model.error === null && this.#dependencies.isLazy(model)) {
      await this.#note(model)
      await this.#dependencies.load(model, options)
      return
    }
    await this.#loadWithParts(model, { ...options, mayStayAsleep: false })
  }

  /** A model that slept is needed now, and so is what it calls. */
  async wake(model: PolledModel, isWanted: () => boolean): Promise<void> {
    await this.#loadWithParts(model, { isForced: false, isWanted, origin: changeOrigin('demand') })
  }

  async #loadWithParts(model: PolledModel, options: LoadOptions): Promise<void> {
    const key = keyOfModel(model)
    const along = broughtAlong(options.origin, key)
    const changed = new Set<ModelKey>()
    for (const part of await this.#withParts([model])) {
      const partKey = keyOfModel(part)
      if (partKey === key) continue
      // Why a part does not serve is told by the ensemble's own failure.
      const isChanged = await this.#dependencies.load(part, { isForced: false, ...along }).catch(() => false)
      if (isChanged) changed.add(partKey)
    }
    if (await this.#dependencies.load(model, options)) changed.add(key)
    await this.#renewDependents(changed, key, options.origin)
  }

  /**
   * Ensembles that call the model go with it. `unloadDependents` takes along the models it calls that nobody asked for
   * and nobody else calls.
   */
  async unload(key: ModelKey, unloadDependents: boolean, origin?: ChangeOrigin): Promise<Unloading> {
    this.#heldBack.delete(key)
    this.#askedFor.delete(key)
    const before: Promise<void>[] = []
    const along = broughtAlong(origin, key)
    let isBusy = false
    for (const dependent of this.#graph.dependentsOf(key).toReversed()) {
      if (!this.#isServing(dependent)) continue
      const versions = this.#dependencies.models.get(dependent)?.ready ?? []
      isBusy ||= versions.some((version) => version.inFlightCount > 0)
      this.#heldBack.add(dependent)
      before.push((await this.#dependencies.unload(dependent, along.origin)).gone)
    }
    // What is under way in an ensemble still calls this model: then it goes when they are done.
    const dependentsGone = Promise.all(before)
    const goNow = async (): Promise<Unloading> => {
      await dependentsGone
      return this.#dependencies.unload(key, origin)
    }
    const gone = isBusy ? goNow().then((unloading) => unloading.gone) : (await goNow()).gone
    if (!unloadDependents) return { gone }
    return { gone: gone.then(() => this.#unloadParts(key, along.origin)) }
  }

  /** Models in the order in which they can be closed together: ensembles before what they call. */
  outermostFirst(keys: readonly ModelKey[]): ModelKey[][] {
    const byDepth = Map.groupBy(keys, (key) => this.#graph.depthOf(key))
    return [...byDepth.keys()].sort((a, b) => b - a).map((depth) => byDepth.get(depth) ?? [])
  }

  async #note(model: PolledModel): Promise<void> {
    await this.#resolveSteps(model)
    this.#graph.note(model)
  }

  /** A step calls the model in its ensemble's own namespace, or else the only one of that name. */
  async #resolveSteps(model: PolledModel): Promise<void> {
    if (model.namespace === undefined || model.error !== null || !isEnsemble(model.config)) return
    for (const step of stepsOf(model.config)) {
      if (step.modelNamespace !== '') continue
      const keys = await this.#dependencies.keysOf(step.modelName)
      const namespaces = keys.map((key) => splitModelKey(key).namespace ?? '')
      const [only = ''] = namespaces
      if (namespaces.includes(model.namespace)) step.modelNamespace = model.namespace
      else if (namespaces.length === 1) step.modelNamespace = only
    }
  }

  async #unloadParts(key: ModelKey, origin?: ChangeOrigin): Promise<void> {
    for (const part of this.#graph.partsOf(key)) {
      const isCalled = this.#graph.dependentsOf(part).some((other) => this.#isServing(other))
      if (this.#askedFor.has(part) || isCalled) continue
      await (
        await this.unload(part, true, origin)
      ).gone
    }
  }

  /** The models and all that they call, parts before ensembles. A part that no repository has is left out. */
  async #withParts(models: readonly PolledModel[]): Promise<PolledModel[]> {
    const found = new Map(models.map((model) => [keyOfModel(model), model]))
    const open = [...models]
    for (let model = open.pop(); model !== undefined; model = open.pop()) {
      await this.#note(model)
      for (const part of this.#graph.partsOf(keyOfModel(model))) {
        if (found.has(part)) continue
        const polled = await this.#dependencies.poll(part)
        if (polled === null) continue
        found.set(part, polled)
        open.push(polled)
      }
    }
    return this.#graph.partsFirst([...found.keys()]).map((key) => found.get(key) as PolledModel)
  }

  /** Models that are not lazy, and all that they call. */
  #mustBeAwake(models: readonly PolledModel[]): Set<ModelKey> {
    const awake = new Set<ModelKey>()
    const open = models.filter((model) => model.error !== null || !this.#dependencies.isLazy(model)).map(keyOfModel)
    for (let key = open.pop(); key !== undefined; key = open.pop()) {
      for (const part of this.#graph.partsOf(key)) {
        if (awake.has(part)) continue
        awake.add(part)
        open.push(part)
      }
    }
    return awake
  }

  async #renewDependents(changed: ReadonlySet<ModelKey>, except: ModelKey, origin?: ChangeOrigin): Promise<void> {
    const along = broughtAlong(origin, except)
    const dependents = new Set([...changed].flatMap((one) => this.#dependentsOf(one)))
    for (const key of this.#graph.partsFirst([...dependents])) {
      const isServing = this.#isServing(key)
      if (key === except || (!isServing && !this.#heldBack.has(key))) continue
      const polled = await this.#dependencies.poll(key)
      if (polled === null) continue
      await this.#note(polled)
      await this.#dependencies.load(polled, { isForced: true, ...along }).catch(async (reason: unknown) => {
        this.#logFailure(key, reason)
        // It would call a model that it no longer fits.
        if (isServing) await this.#dependencies.unload(key, along.origin)
        this.#heldBack.add(key)
      })
    }
  }

  /** With namespaces also those whose steps have found no model of that name yet. */
  #dependentsOf(key: ModelKey): ModelKey[] {
    const { namespace, name } = splitModelKey(key)
    const dependents = this.#graph.dependentsOf(key)
    return namespace === undefined ? dependents : [...dependents, ...this.#graph.dependentsOf(modelKey('', name))]
  }

  #isServing(key: ModelKey): boolean {
    return (this.#dependencies.models.get(key)?.latest ?? null) !== null
  }

  #logFailure(key: ModelKey, reason: unknown): void {
    const text = messageOf(reason).trimEnd()
    // What is wrong with a version was logged when it failed.
    if (text.includes('is at UNAVAILABLE state')) this.#dependencies.log.info(`failed to load '${modelLabel(key)}'`)
    else this.#dependencies.log.error(`failed to load '${modelLabel(key)}': ${text}`)
  }
}

/** Of a model that nobody asked for: it goes or comes because another one does. */
const broughtAlong = (origin: ChangeOrigin | undefined, because: ModelKey): { readonly origin?: ChangeOrigin } =>
  origin === undefined ? {} : { origin: { ...origin, because: modelLabel(because) } }

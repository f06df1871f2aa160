// Keeps ensembles in step with the models that they call, their parts: parts are loaded before their ensemble, and an
// ensemble is unloaded before its parts and loaded again when they come back. ModelLifecycle does the loads and unloads.

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
  /** Loads one model without its parts. False when it served from the same files already. */
  load(model: PolledModel, options: LoadOptions): Promise<boolean>
  /** Whether the first request for the model loads it. */
  isLazy(model: FoundModel): boolean
  /** An unload of the model waits for loads; `until` does not reject. Rejects where too many changes of the model wait. */
  wait(key: ModelKey, until: Promise<unknown>): Promise<void>
  /** Unloads one model without its parts and ensembles. */
  unload(key: ModelKey, origin?: ChangeOrigin): Promise<Unloading>
}

export class EnsembleUpkeep {
  readonly #dependencies: EnsembleUpkeepDependencies
  readonly #graph = new EnsembleGraph()
  /** Models that somebody asked for by name. Other models are there because an ensemble calls them. */
  readonly #askedFor = new Set<ModelKey>()
  /** Ensembles that do not serve because a part is missing. They are loaded when the part comes back. */
  readonly #heldBack = new Set<ModelKey>()
  /** The loads of models with their parts that are under way, and the models of each. */
  readonly #loads = new Map<Promise<void>, ReadonlySet<ModelKey>>()

  constructor(dependencies: EnsembleUpkeepDependencies) {
    this.#dependencies = dependencies
  }

  isEnsemble(key: ModelKey): boolean {
    return this.#graph.isEnsemble(key)
  }

  /** Whether the model is an ensemble that waits for a part to come back. */
  isHeldBack(key: ModelKey): boolean {
    return this.#heldBack.has(key)
  }

  /** Whether an ensemble that serves calls the model. */
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
    const failure = cycle ?? missingPart(key, this.#graph, models) ?? ensembleProblem(model, this.#graph, models)
    if (failure === null) return
    this.#heldBack.add(key)
    note(failure)
    for (const part of this.#graph.partsOf(key)) {
      if (models.has(part)) continue
      log.error(`failed to poll model '${splitModelKey(part).name}': model not found in any model repository.`)
    }
    log.error(`Invalid argument: ${failure}`)
    const label = modelLabel(key)
    // The first answer of Triton. When the same load is asked for again, Triton's answers no longer say the reason.
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
        // Parts are before their ensemble in the queue, so their loads have begun. Ensembles of a cycle do not wait.
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

  /** Loads the parts of a model, then the model, then the ensembles that call any model that has changed. */
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

  /** Loads a model that slept, and its parts. */
  async wake(model: PolledModel, isWanted: () => boolean): Promise<void> {
    await this.#loadWithParts(model, { isForced: false, isWanted, origin: changeOrigin('demand') })
  }

  async #loadWithParts(model: PolledModel, options: LoadOptions): Promise<void> {
    const models = await this.#withParts([model])
    const load = this.#loadInOrder(model, models, options)
    this.#loads.set(load, new Set(models.map(keyOfModel)))
    try {
      await load
    } finally {
      this.#loads.delete(load)
    }
  }

  /** `models` are the model and its parts, parts first. */
  async #loadInOrder(model: PolledModel, models: readonly PolledModel[], options: LoadOptions): Promise<void> {
    const key = keyOfModel(model)
    const along = broughtAlong(options.origin, key)
    const changed = new Set<ModelKey>()
    for (const part of models) {
      const partKey = keyOfModel(part)
      if (partKey === key) continue
      // The error of the ensemble tells why the part does not serve.
      const isChanged = await this.#dependencies.load(part, { isForced: false, ...along }).catch(() => false)
      if (isChanged) changed.add(partKey)
    }
    // An ensemble whose files are as they were may call another model now.
    const isForced = options.isForced || changed.size > 0
    if (await this.#dependencies.load(model, { ...options, isForced })) changed.add(key)
    await this.#renewDependents(changed, key, options.origin)
  }

  /**
   * Unloads the ensembles that call the model, then the model. `unloadDependents` also unloads its parts, unless somebody
   * asked for them or another ensemble calls them.
   */
  async unload(key: ModelKey, unloadDependents: boolean, origin?: ChangeOrigin): Promise<Unloading> {
    // An ensemble whose load is under way needs its parts until it serves.
    const loads = [...this.#loads].filter(([, models]) => models.has(key)).map(([load]) => load)
    if (loads.length > 0) await this.#dependencies.wait(key, Promise.allSettled(loads))
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
    // Requests in an ensemble still call this model: then the model is unloaded after them.
    const dependentsGone = Promise.all(before)
    const goNow = async (): Promise<Unloading> => {
      await dependentsGone
      return this.#dependencies.unload(key, origin)
    }
    const gone = isBusy ? goNow().then((unloading) => unloading.gone) : (await goNow()).gone
    if (!unloadDependents) return { gone }
    return { gone: gone.then(() => this.#unloadParts(key, along.origin)) }
  }

  /** Groups of models that can be unloaded together, ensembles before their parts. */
  outermostFirst(keys: readonly ModelKey[]): ModelKey[][] {
    const byDepth = Map.groupBy(keys, (key) => this.#graph.depthOf(key))
    return [...byDepth.keys()].sort((a, b) => b - a).map((depth) => byDepth.get(depth) ?? [])
  }

  async #note(model: PolledModel): Promise<void> {
    await this.#resolveSteps(model)
    this.#graph.note(model)
  }

  /** A step calls the model in the namespace of its ensemble, or else the only model of that name. */
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
        // The ensemble does not fit the part that has changed.
        if (isServing) await this.#dependencies.unload(key, along.origin)
        this.#heldBack.add(key)
      })
    }
  }

  /**
   * With namespaces also the ensembles with a step for which no model of that name was found before, and those that called
   * the model of another namespace because their own had none.
   */
  #dependentsOf(key: ModelKey): ModelKey[] {
    const { namespace, name } = splitModelKey(key)
    const dependents = this.#graph.dependentsOf(key)
    if (namespace === undefined) return dependents
    const callers = this.#graph.callersIn(namespace, name)
    const indirect = callers.flatMap((caller) => this.#graph.dependentsOf(caller))
    return [...dependents, ...this.#graph.dependentsOf(modelKey('', name)), ...callers, ...indirect]
  }

  #isServing(key: ModelKey): boolean {
    return (this.#dependencies.models.get(key)?.latest ?? null) !== null
  }

  #logFailure(key: ModelKey, reason: unknown): void {
    const text = messageOf(reason).trimEnd()
    // The error of a version, and of a model without one, was logged when it failed.
    const isLogged = /is at UNAVAILABLE state|at least one version must be available/.test(text)
    if (!isLogged) this.#dependencies.log.error(`failed to load '${modelLabel(key)}': ${text}`)
  }
}

/** For a model that is loaded or unloaded because another one is: `because` names the other one. */
const broughtAlong = (origin: ChangeOrigin | undefined, because: ModelKey): { readonly origin?: ChangeOrigin } =>
  origin === undefined ? {} : { origin: { ...origin, because: modelLabel(because) } }

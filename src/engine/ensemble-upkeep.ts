// Keeps ensembles in step with the models they call: loads parts first, takes ensembles down before their parts, and
// brings them back with them. It knows what to do with which model and when; the Engine does it.

import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { ModelConfig } from '../model/model-config.ts'
import type { PolledModel } from '../repository/local-repository.ts'
import { EnsembleGraph } from './ensemble-graph.ts'
import { ensembleProblem, missingPart, type ServedModels } from './ensemble-loading.ts'

export type Unloading = { readonly gone: Promise<void> }

export type EnsembleUpkeepDependencies = {
  readonly log: Log
  readonly models: ServedModels
  /** Null when no repository has it. */
  poll(name: string): Promise<PolledModel | null>
  /** One model by itself. False when it served already, and from the same files. */
  load(model: PolledModel, options: { readonly isForced: boolean }): Promise<boolean>
  /** One model by itself. */
  unload(name: string): Promise<Unloading>
}

export class EnsembleUpkeep {
  readonly #dependencies: EnsembleUpkeepDependencies
  readonly #graph = new EnsembleGraph()
  /** Models that were asked for by name, and not just because an ensemble calls them. */
  readonly #askedFor = new Set<string>()
  /** Ensembles that do not serve for want of a part: they come back with it. */
  readonly #heldBack = new Set<string>()

  constructor(dependencies: EnsembleUpkeepDependencies) {
    this.#dependencies = dependencies
  }

  isEnsemble(name: string): boolean {
    return this.#graph.isEnsemble(name)
  }

  /** Throws, with Triton's texts, when the model is an ensemble that cannot serve now; `note` gets the reason first. */
  requireParts(config: ModelConfig, note: (reason: string) => void): void {
    const { name } = config
    this.#heldBack.delete(name)
    if (!this.isEnsemble(name)) return
    const { models, log } = this.#dependencies
    const cycle = this.#graph.cycleText(name)
    const missing = cycle === null ? missingPart(name, this.#graph, models) : null
    const failure = cycle ?? missing ?? ensembleProblem(config, this.#graph, models)
    if (failure === null) return
    this.#heldBack.add(name)
    note(failure)
    log.error(`Invalid argument: ${failure}`)
    // Of what is wrong with the graph itself Triton's answer says little, and its log the rest.
    if (missing !== null) {
      throw new ServerError('INTERNAL', `failed to load '${name}', failed to poll from model repository`)
    }
    if (cycle !== null) throw new ServerError('INTERNAL', `failed to load '${name}', no version is available`)
    throw new ServerError('INVALID_ARG', `load failed for model '${name}': ${failure}\n`)
  }

  /** Loads models and what they call, at most `limit` at a time, each ensemble after its parts. Never rejects. */
  async loadAll(asked: readonly PolledModel[], limit: number): Promise<ServerError | null> {
    for (const { name } of asked) this.#askedFor.add(name)
    const queue = await this.#withParts(asked)
    const settled = new Map(queue.map(({ name }) => [name, Promise.withResolvers<void>()]))
    let failure: ServerError | null = null
    const loadNext = async (): Promise<void> => {
      for (let model = queue.shift(); model !== undefined; model = queue.shift()) {
        const { name } = model
        // Parts come first in the queue, so somebody is at work on them; those of a cycle wait for nobody.
        const parts = this.#graph.cycleText(name) === null ? this.#graph.partsOf(name) : []
        for (const part of parts) await settled.get(part)?.promise
        await this.#dependencies.load(model, { isForced: false }).catch((reason: unknown) => {
          failure ??= ServerError.from(reason)
          this.#logFailure(name, reason)
        })
        settled.get(name)?.resolve()
      }
    }
    await Promise.all(Array.from({ length: Math.max(1, limit) }, loadNext))
    return failure
  }

  /** Loads one model, before it what it calls, and after it the ensembles that call what has changed. */
  async load(model: PolledModel, { isForced }: { readonly isForced: boolean }): Promise<void> {
    const { name } = model
    this.#askedFor.add(name)
    const changed = new Set<string>()
    for (const part of await this.#withParts([model])) {
      if (part.name === name) continue
      // Why a part does not serve is told by the ensemble's own failure.
      const isChanged = await this.#dependencies.load(part, { isForced: false }).catch(() => false)
      if (isChanged) changed.add(part.name)
    }
    if (await this.#dependencies.load(model, { isForced })) changed.add(name)
    await this.#renewDependents(changed, name)
  }

  /**
   * Ensembles that call the model go with it. `unloadDependents` takes along the models it calls that nobody asked for
   * and nobody else calls.
   */
  async unload(name: string, unloadDependents: boolean): Promise<Unloading> {
    this.#heldBack.delete(name)
    this.#askedFor.delete(name)
    const before: Promise<void>[] = []
    let isBusy = false
    for (const dependent of this.#graph.dependentsOf(name).toReversed()) {
      if (!this.#isServing(dependent)) continue
      const versions = this.#dependencies.models.get(dependent)?.ready ?? []
      isBusy ||= versions.some((version) => version.inFlightCount > 0)
      this.#heldBack.add(dependent)
      before.push((await this.#dependencies.unload(dependent)).gone)
    }
    // What is under way in an ensemble still calls this model: then it goes when they are done.
    const dependentsGone = Promise.all(before)
    const goNow = async (): Promise<Unloading> => {
      await dependentsGone
      return this.#dependencies.unload(name)
    }
    const gone = isBusy ? goNow().then((unloading) => unloading.gone) : (await goNow()).gone
    if (!unloadDependents) return { gone }
    return { gone: gone.then(() => this.#unloadParts(name)) }
  }

  /** Names of models in the order in which they can be closed together: ensembles before what they call. */
  outermostFirst(names: readonly string[]): string[][] {
    const byDepth = Map.groupBy(names, (name) => this.#graph.depthOf(name))
    return [...byDepth.keys()].sort((a, b) => b - a).map((depth) => byDepth.get(depth) ?? [])
  }

  async #unloadParts(name: string): Promise<void> {
    for (const part of this.#graph.partsOf(name)) {
      const isCalled = this.#graph.dependentsOf(part).some((other) => this.#isServing(other))
      if (this.#askedFor.has(part) || isCalled) continue
      await (
        await this.unload(part, true)
      ).gone
    }
  }

  /** The models and all that they call, parts before ensembles. A part that no repository has is left out. */
  async #withParts(models: readonly PolledModel[]): Promise<PolledModel[]> {
    const found = new Map(models.map((model) => [model.name, model]))
    const open = [...models]
    for (let model = open.pop(); model !== undefined; model = open.pop()) {
      this.#graph.note(model)
      for (const part of this.#graph.partsOf(model.name)) {
        if (found.has(part)) continue
        const polled = await this.#dependencies.poll(part)
        if (polled === null) continue
        found.set(part, polled)
        open.push(polled)
      }
    }
    return this.#graph.partsFirst([...found.values()])
  }

  async #renewDependents(changed: ReadonlySet<string>, except: string): Promise<void> {
    const names = new Set([...changed].flatMap((name) => this.#graph.dependentsOf(name)))
    for (const { name } of this.#graph.partsFirst([...names].map((each) => ({ name: each })))) {
      const isServing = this.#isServing(name)
      if (name === except || (!isServing && !this.#heldBack.has(name))) continue
      const polled = await this.#dependencies.poll(name)
      if (polled === null) continue
      this.#graph.note(polled)
      await this.#dependencies.load(polled, { isForced: true }).catch(async (reason: unknown) => {
        this.#logFailure(name, reason)
        // It would call a model that it no longer fits.
        if (isServing) await this.#dependencies.unload(name)
        this.#heldBack.add(name)
      })
    }
  }

  #isServing(name: string): boolean {
    return (this.#dependencies.models.get(name)?.latest ?? null) !== null
  }

  #logFailure(name: string, reason: unknown): void {
    const text = messageOf(reason).trimEnd()
    // What is wrong with a version was logged when it failed.
    if (text.includes('is at UNAVAILABLE state')) this.#dependencies.log.info(`failed to load '${name}'`)
    else this.#dependencies.log.error(`failed to load '${name}': ${text}`)
  }
}

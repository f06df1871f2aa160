// What rollouts need of the Engine and the repositories, in their words.

import { ServerError } from '../base/server-error.ts'
import { changeOrigin } from '../model/change-origin.ts'
import type { Chooser } from '../model/choice.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { modelLabel, type ModelKey } from '../model/model-key.ts'
import type { ModelVersion } from '../model/model-version.ts'
import { redirectChooser, redirectKeeper } from '../rollouts/redirect-chooser.ts'
import { keepingChooser, type SequenceKeeper } from '../rollouts/sequence-keeper.ts'
import type { VersionOfModel } from './release-record.ts'
import type { Engine } from '../engine/engine.ts'
import type { ServedVersion } from '../engine/serving/served-version.ts'
import type { ContentIndex } from '../repository/content-index.ts'
import { keyOfModel, type FoundModel, type ModelRepository } from '../repository/model-repository.ts'
import type { RepositoryStore } from '../repository/repository-store.ts'
import { polledContents } from '../repository/version-content.ts'
import { readRolloutFileOf, type FoundRolloutFile } from './rollout-files.ts'

export type FleetParts = {
  readonly engine: Engine
  readonly repository: ModelRepository
  readonly contents: ContentIndex
  readonly store: RepositoryStore
}

type Redirect = { readonly to: VersionOfModel; readonly chooser: Chooser; readonly keeper: SequenceKeeper }
type Router = { readonly of: SequenceKeeper | undefined; readonly chooser: Chooser | null }

export class ModelFleet {
  readonly engine: Engine
  readonly #parts: FleetParts
  /** By model, the newest last. The newest one chooses; the others have sequences that are still under way. */
  readonly #routers = new Map<string, readonly Router[]>()
  readonly #redirects = new Map<string, Redirect>()

  constructor(parts: FleetParts) {
    this.engine = parts.engine
    this.#parts = parts
  }

  /** The model as its repository has it now. Throws NOT_FOUND, or what is wrong with its files. */
  async poll(model: string): Promise<FoundModel> {
    const [key] = await this.#parts.repository.keysOf(model)
    const polled = key === undefined ? null : await this.#parts.repository.pollOne(key)
    if (polled === null) throw new ServerError('NOT_FOUND', `there is no model '${model}' in the repositories`)
    if (polled.error !== null) throw polled.error
    return polled
  }

  /** '' when the files cannot be read. */
  async hashOf(polled: FoundModel, version: string): Promise<string> {
    return (await polledContents(this.#parts.contents, polled, [version]).get(version))?.hash ?? ''
  }

  rolloutFile({ repositoryPath, name }: Pick<FoundModel, 'repositoryPath' | 'name'>): Promise<FoundRolloutFile> {
    return readRolloutFileOf(this.#parts.store, repositoryPath, name)
  }

  labelOf(polled: FoundModel): string {
    return modelLabel(keyOfModel(polled))
  }

  /** Loads and retires versions until those serve that the rollouts need. */
  renew(model: string): Promise<void> {
    return this.engine.renew(model, changeOrigin('rollout'))
  }

  /** A version that serves; null: it does not. */
  version(model: string, version: string): ServedVersion | null {
    const found = this.engine.servedModel(model)?.versions.get(version)
    return found?.state === 'READY' ? found : null
  }

  /** What requests without a version get now; '': the model does not serve. */
  standardOf(model: string): string {
    return this.engine.servedModel(model)?.latest?.version ?? ''
  }

  isUploaded(model: string): boolean {
    return (this.engine.servedModel(model)?.from.upload ?? null) !== null
  }

  setStandard(model: string, version: string): void {
    this.engine.setStandardVersion(model, version)
  }

  /** From now on requests without a version go to this version of another model; null: to the model itself. */
  setInstead(model: string, to: VersionOfModel | null): void {
    const before = this.#redirects.get(model)
    if (before?.to.model === to?.model && before?.to.version === to?.version) return
    if (to === null) this.#redirects.delete(model)
    else this.#redirects.set(model, this.#redirectTo(to))
    this.#setChooser(model)
    if (before !== undefined) void this.#keepSequences(model, before.keeper, this.#routers.get(model) ?? [])
  }

  #redirectTo(to: VersionOfModel): Redirect {
    const find = (): ModelVersion | null => this.version(to.model, to.version)
    return { to, chooser: redirectChooser(find), keeper: redirectKeeper(to, find) }
  }

  /** What a live rollout needs of the Engine. While it routes the requests of a model, redirects wait. */
  readonly routing = {
    setChooser: (model: string, chooser: Chooser | null, of?: SequenceKeeper): void => {
      const others = (this.#routers.get(model) ?? []).filter((router) => router.of !== of)
      // Whoever chose before has the sequences that began there, and nothing else, also when this one goes.
      if (chooser !== null)
        this.#setRouters(model, [...others.map((one) => ({ of: one.of, chooser: null })), { of, chooser }]) // prettier-ignore
      else if (of === undefined) this.#setRouters(model, others)
      else void this.#keepSequences(model, of, others)
    },
    findVersion: (model: string, version: string): ModelVersion => this.engine.findVersion(model, version),
    infer: (request: InferenceRequest, version: ModelVersion, isExpected?: boolean): void =>
      this.engine.infer(request, version, isExpected),
  }

  /** Until the sequences on versions that get no more of them have ended, their requests find them. */
  async #keepSequences(model: string, of: SequenceKeeper, others: readonly Router[]): Promise<void> {
    const next = this.#redirects.get(model)?.to ?? { model, version: this.standardOf(model) }
    const leaving = of.arms.flatMap(({ settings }) => {
      const isNext = settings.model === next.model && settings.version === next.version
      const served = isNext ? null : this.version(settings.model, settings.version)
      return served === null || served.sequenceCount === 0 ? [] : [served.sequencesEnded()]
    })
    this.#setRouters(model, leaving.length === 0 ? others : [{ of, chooser: null }, ...others])
    if (leaving.length === 0) return
    await Promise.all(leaving)
    this.#setRouters(
      model,
      (this.#routers.get(model) ?? []).filter((router) => router.of !== of),
    )
  }

  #setRouters(model: string, routers: readonly Router[]): void {
    if (routers.length === 0) this.#routers.delete(model)
    else this.#routers.set(model, routers)
    this.#setChooser(model)
  }

  #setChooser(model: string): void {
    const routers = this.#routers.get(model) ?? []
    const newest = routers.findLast(({ chooser }) => chooser !== null)
    const next = newest?.chooser ?? this.#redirects.get(model)?.chooser ?? null
    const keepers = routers.flatMap((router) => (router === newest || router.of === undefined ? [] : [router.of]))
    this.engine.setChooser(model, keepers.length === 0 ? next : keepingChooser(keepers, next))
  }

  /** One more copy of a version, which serves nobody but who has it. */
  loadCopy(model: string, version: string): Promise<ServedVersion> {
    return this.engine.loadCopy(model, version)
  }

  unloadCopy(copy: ServedVersion): Promise<void> {
    return this.engine.unloadCopy(copy)
  }

  /** How often workers of the version were started again. */
  restarts(model: string, version: string): number {
    const instances = this.version(model, version)?.instances ?? []
    return instances.reduce((sum, { restartCount = 0 }) => sum + restartCount, 0)
  }

  async memoryBytes(model: string, version: string): Promise<number | null> {
    const served = this.version(model, version)
    if (served === null) return null
    const measured = await served.measureBytes()
    return measured ?? (served.memoryBytes > 0 ? served.memoryBytes : null)
  }
}

export const labelOfKey = (key: ModelKey): string => modelLabel(key)

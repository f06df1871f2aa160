// What rollouts need of the Engine and the repositories, in their words.

import { ServerError } from '../base/server-error.ts'
import { changeOrigin } from '../model/change-origin.ts'
import type { Chooser } from '../model/choice.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { modelLabel, type ModelKey } from '../model/model-key.ts'
import type { ModelVersion } from '../model/model-version.ts'
import { redirectChooser } from '../rollouts/redirect-chooser.ts'
import type { VersionOfModel } from './release-record.ts'
import type { Engine } from '../engine/engine.ts'
import type { ServedVersion } from '../engine/serving/served-version.ts'
import type { ContentIndex } from '../repository/content-index.ts'
import { keyOfModel, type FoundModel, type ModelRepository } from '../repository/model-repository.ts'
import type { RepositoryStore } from '../repository/repository-store.ts'
import { polledContent } from '../repository/version-content.ts'
import { readRolloutFileOf, type FoundRolloutFile } from './rollout-files.ts'

export type FleetParts = {
  readonly engine: Engine
  readonly repository: ModelRepository
  readonly contents: ContentIndex
  readonly store: RepositoryStore
}

export class ModelFleet {
  readonly engine: Engine
  readonly #parts: FleetParts
  readonly #routers = new Map<string, Chooser>()
  readonly #redirects = new Map<string, Chooser>()

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
    return (await polledContent(this.#parts.contents, polled, version))?.hash ?? ''
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
    if (to === null && !this.#redirects.delete(model)) return
    if (to !== null)
      this.#redirects.set(
        model,
        redirectChooser(() => this.version(to.model, to.version)),
      )
    this.#setChooser(model)
  }

  /** What a live rollout needs of the Engine. While it routes the requests of a model, redirects wait. */
  readonly routing = {
    setChooser: (model: string, router: Chooser | null, was?: Chooser): void => {
      if (router === null && was !== undefined && this.#routers.get(model) !== was) return
      if (router === null) this.#routers.delete(model)
      else this.#routers.set(model, router)
      this.#setChooser(model)
    },
    findVersion: (model: string, version: string): ModelVersion => this.engine.findVersion(model, version),
    infer: (request: InferenceRequest, version: ModelVersion, isExpected?: boolean): void =>
      this.engine.infer(request, version, isExpected),
  }

  #setChooser(model: string): void {
    this.engine.setChooser(model, this.#routers.get(model) ?? this.#redirects.get(model) ?? null)
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

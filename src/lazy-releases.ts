// Rollouts on a server that may never have one. Their code is read when there is a first reason for it: a rollout file beside a
// model, a call of the API, something that an earlier run of the server kept, or a store that is shared with other servers.

import { OnDemand } from './base/on-demand.ts'
import type { VersionRule } from './engine/lifecycle/version-rule.ts'
import type { ModelKey } from './model/model-key.ts'
import type { OpenedReleases, ReleaseDependencies } from './open-releases.ts'
import { openRolloutTools, type RolloutTools } from './open-rollout-tools.ts'
import type { ServerOptions } from './options/server-options.ts'
import { findRolloutFile } from './releases/find-rollout-file.ts'
import { hasKeptReleases } from './releases/has-kept-releases.ts'
import type { FoundModel } from './repository/model-repository.ts'

export class LazyReleases implements VersionRule {
  readonly #tools: RolloutTools
  readonly #dependencies: ReleaseDependencies
  readonly #options: ServerOptions['process']
  readonly #opening = new OnDemand(() => this.#load())
  #opened: OpenedReleases | null = null

  private constructor(dependencies: ReleaseDependencies, options: ServerOptions['process'], tools: RolloutTools) {
    this.#dependencies = dependencies
    this.#options = options
    this.#tools = tools
  }

  /** To be called before the models are loaded: from then on the Engine asks which versions to load. */
  static async open(dependencies: ReleaseDependencies, options: ServerOptions['process']): Promise<LazyReleases> {
    const tools = await openRolloutTools(dependencies, options)
    const releases = new LazyReleases(dependencies, options, tools)
    if (options.rolloutStoreUrl !== '' || (await hasKeptReleases(options.stateDirectory))) await releases.open()
    dependencies.engine.setVersionRule(releases)
    return releases
  }

  get faultDesk(): RolloutTools['faultDesk'] {
    return this.#tools.faultDesk
  }

  get faults(): RolloutTools['faults'] {
    return this.#tools.faults
  }

  /** Null as long as nobody needed rollouts. */
  get opened(): OpenedReleases | null {
    return this.#opened
  }

  open(): Promise<OpenedReleases> {
    return this.#opening.get()
  }

  async #load(): Promise<OpenedReleases> {
    const { openReleases } = await import('./open-releases.ts')
    this.#opened = await openReleases(this.#dependencies, this.#options, this.#tools.countryOf)
    return this.#opened
  }

  /** After the models are loaded. Rollouts that are opened later have nothing to go on with. */
  async start(): Promise<void> {
    await this.#opened?.control.start()
    this.#opened?.presence?.start()
  }

  async close(): Promise<void> {
    const opened = await this.#opening.opened()
    await opened?.presence?.close()
    await opened?.control.close()
  }

  async select(key: ModelKey, polled: FoundModel, isRenewal: boolean): Promise<readonly string[] | null> {
    const { store } = this.#dependencies
    if (this.#opened === null && (await findRolloutFile(store, polled.repositoryPath, polled.name)) === '') return null
    const { control } = await this.open()
    return await control.versions.select(key, polled, isRenewal)
  }

  afterLoad(name: string, isAsked: boolean): Promise<string> {
    return this.#opened === null ? Promise.resolve('') : this.#opened.control.versions.afterLoad(name, isAsked)
  }
}

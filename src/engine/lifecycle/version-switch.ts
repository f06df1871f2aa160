// Carries out a plan: loads versions, lets them take over from the versions that served, and unloads those.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { Patience } from '../../base/patience.ts'
import { errorCodeText, ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { modelLabel, type ModelKey } from '../../model/model-key.ts'
import type { FoundModel } from '../../repository/model-repository.ts'
import { runRepositoryAgents } from '../../repository/repository-agents.ts'
import type { ModelLedger } from '../../telemetry/model-ledger.ts'
import { loadEnsemble } from '../ensembles/ensemble-loading.ts'
import type { ExpectedRequests } from '../serving/expected-requests.ts'
import {
  filesOf,
  loadVersion,
  rescaledConfig,
  type LoadDependencies,
  type LoadSettings,
} from '../serving/load-version.ts'
import type { RequestCheck } from '../serving/request-check.ts'
import type { ServedFrom, ServedModel } from '../serving/served-model.ts'
import { ServedVersion } from '../serving/served-version.ts'
import type { ServePlan } from './plan-change.ts'
import { versionOrigin } from './version-origin.ts'

export type SwitchDependencies = LoadDependencies & {
  readonly ledger: ModelLedger
  /** The requests that front ends have in hand now. */
  readonly expected: ExpectedRequests
  readonly check: RequestCheck
  readonly models: ReadonlyMap<ModelKey, ServedModel>
  isEnsemble(key: ModelKey): boolean
  /** Runs a step of an ensemble. */
  infer(request: InferenceRequest): void
  /** A request that waited for its model, which serves now. `version` is the version that was chosen for the request. */
  inferWoken(request: InferenceRequest, model: ServedModel, version: string): void
  /** Ends when requests in flight are not waited for any longer. */
  readonly patience: Patience
  /** A model came, went or changed its readiness. */
  changed(): void
  /** A version has its instances, and will serve now. */
  onServed?(version: ServedVersion): void
}

type SwitchSettings = LoadSettings & {
  /** `--triton-defaults`: as in Triton a version that failed beside versions that serve is in the index, and not ready. */
  readonly wordsErrorsLikeTriton?: boolean
}

/** Versions of one model that load at the same time, or are unloaded in one turn of the event loop. */
const mostAtOnce = 32

export class VersionSwitch {
  readonly #dependencies: SwitchDependencies
  readonly #settings: SwitchSettings
  readonly #log: Log
  readonly #clock: Clock

  constructor(dependencies: SwitchDependencies, settings: SwitchSettings) {
    this.#dependencies = dependencies
    this.#settings = settings
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('version-switch.ts')
  }

  /** All versions that are to serve, lowest first. Throws when one of them does not load; then the same ones serve on. */
  async bringUp(
    model: ServedModel,
    { polled, chosen, keep, load }: ServePlan<ServedVersion>,
  ): Promise<ServedVersion[]> {
    const { key, label } = model
    const { ledger, check } = this.#dependencies
    const parts = { clock: this.#clock, log: this.#log, ledger, check }
    const fresh = load.map((version) => new ServedVersion(parts, key, version))
    // A first load shows itself as LOADING; a reload stays out of sight until it can take over.
    if (model.latest === null) model.show(fresh)
    this.#dependencies.changed()
    const checked = fresh.length === 0 ? Promise.resolve() : runRepositoryAgents(polled.config, polled.modelDirectory)
    const failed: string[] = []
    for (let start = 0; start < fresh.length; start += mostAtOnce) {
      // Others are served between two groups.
      if (start > 0) await nextTurn()
      const some = fresh.slice(start, start + mostAtOnce)
      const brought = await Promise.all(some.map((version) => this.#bringUp(version, polled, checked)))
      failed.push(...brought.filter((text) => text !== null))
    }
    if (failed.length === 0) {
      for (const version of keep) {
        const failure = await this.#rescale(version, polled)
        if (failure !== null) failed.push(failure)
      }
    }
    const all = new Map([...keep, ...fresh].map((one) => [one.version, one]))
    if (failed.length === 0) return chosen.map((number) => all.get(number)).filter((one) => one !== undefined)
    await Promise.all(fresh.map((version) => version.unload(Patience.none())))
    if (this.#settings.wordsErrorsLikeTriton === true) showFailed(model, fresh)
    this.#dependencies.changed()
    this.#log.info(`failed to load '${label}'`)
    throw new ServerError('INVALID_ARG', `load failed for model '${label}': ${failed.join('')}\n`)
  }

  /** One more copy of a version. The model does not know of it, and nobody finds it by a name. Throws when it does not load. */
  async bringUpCopy(key: ModelKey, polled: FoundModel, version: string): Promise<ServedVersion> {
    const { ledger, check } = this.#dependencies
    const copy = new ServedVersion({ clock: this.#clock, log: this.#log, ledger, check }, key, version)
    const failure = await this.#bringUp(copy, polled, runRepositoryAgents(polled.config, polled.modelDirectory))
    if (failure === null) return copy
    throw new ServerError('INVALID_ARG', `a copy of model '${modelLabel(key)}' could not be loaded: ${failure}`)
  }

  /**
   * One step, no await inside it: clients see the old set of versions or the new one. The result resolves when the old
   * ones are gone.
   */
  takeOver(
    model: ServedModel,
    next: readonly ServedVersion[],
    from: ServedFrom,
    retire: readonly ServedVersion[],
  ): Promise<unknown> {
    const woken = model.sleeping
    model.serve(next, from)
    const gone = Promise.all(retire.map((version, i) => this.#retire(model, version, Math.floor(i / mostAtOnce))))
    this.#dependencies.changed()
    for (const { request, version } of woken?.takeWaiting() ?? []) {
      this.#dependencies.inferWoken(request, model, version)
    }
    return gone
  }

  async #rescale(version: ServedVersion, polled: FoundModel): Promise<string | null> {
    try {
      await version.rescale(rescaledConfig(version.config, polled.config, this.#settings))
      this.#dependencies.changed()
      return null
    } catch (reason) {
      return this.#failureText(version, reason)
    }
  }

  /** Null when it serves, else the part of the error message that tells of this version. */
  async #bringUp(version: ServedVersion, polled: FoundModel, checked: Promise<void>): Promise<string | null> {
    this.#log.info(`loading: ${modelLabel(version.key)}:${version.version}`)
    const files = filesOf(polled, version.version)
    const onReadinessChange = (): void => {
      this.#dependencies.changed()
      version.instancesChanged()
    }
    try {
      await checked
      version.becomeReady(
        this.#dependencies.isEnsemble(version.key)
          ? await loadEnsemble(this.#dependencies, this.#settings, polled, files)
          : await loadVersion(this.#dependencies, this.#settings, polled.config, files, onReadinessChange),
      )
      version.origin = versionOrigin(polled, version.version)
      this.#dependencies.onServed?.(version)
      return null
    } catch (reason) {
      const text = this.#failureText(version, reason)
      version.becomeUnavailable(reasonText(reason))
      return text
    }
  }

  #failureText({ key, version }: ServedVersion, reason: unknown): string {
    const text = reasonText(reason)
    this.#log.error(`failed to load '${modelLabel(key)}' version ${version}: ${text}`)
    return `version ${version} is at UNAVAILABLE state: ${text};`
  }

  /** The version still takes the requests that front ends have in hand, and the sequences that have begun on it. */
  async #retire(model: ServedModel, old: ServedVersion, turns: number): Promise<void> {
    const { patience, expected } = this.#dependencies
    const passedOn = expected.passedOn()
    if (old.state === 'READY' && (passedOn !== null || old.sequenceCount > 0)) {
      model.beginRetiring(old)
      await patience.waitFor(Promise.all([passedOn, old.sequencesEnded()]))
      model.endRetiring(old)
    }
    for (let turn = 0; turn < turns; turn++) await nextTurn()
    await old.unload(patience)
    this.#dependencies.changed()
  }
}

/** A version that serves keeps its place in the index, whatever became of its successor. */
function showFailed(model: ServedModel, fresh: readonly ServedVersion[]): void {
  model.show(fresh.filter(({ version }) => !model.versions.has(version)))
}

function reasonText(reason: unknown): string {
  const error = ServerError.from(reason)
  return `${errorCodeText[error.code]}: ${error.message}`
}

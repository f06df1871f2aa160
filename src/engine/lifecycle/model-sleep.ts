// Puts models to sleep and wakes them: a model that sleeps is known and not in memory, and the first request loads it.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Patience } from '../../base/patience.ts'
import { ServerError } from '../../base/server-error.ts'
import { modelLabel, splitModelKey, type ModelKey } from '../../model/model-key.ts'
import type { PolledModel } from '../../repository/model-repository.ts'
import type { ResidencyLedger } from '../../telemetry/residency-ledger.ts'
import { draftOf } from '../ensembles/ensemble-loading.ts'
import type { ModelResidency } from '../residency/model-residency.ts'
import {
  describeVersion,
  filesOf,
  queueBound,
  type LoadDependencies,
  type LoadSettings,
} from '../serving/load-version.ts'
import type { ServedModel } from '../serving/served-model.ts'
import { SleepingModel, type SleepingSettings } from '../serving/sleeping-model.ts'
import type { ChangeQueue } from './change-queue.ts'
import type { ChangeRecorder } from './change-recorder.ts'
import type { ModelDirectory } from './model-directory.ts'
import type { ModelSource } from './model-source.ts'
import type { SleepPlan } from './plan-change.ts'

export type SleepDependencies = LoadDependencies & {
  readonly repository: ModelSource
  readonly directory: ModelDirectory
  readonly residency: ModelResidency
  readonly changes: ChangeQueue
  readonly recorder: ChangeRecorder
  readonly ledger: ResidencyLedger
  /** Ends when requests in flight are not waited for any longer. */
  readonly patience: Patience
  /** Loads the model and what it calls, if somebody still wants it when its turn comes. */
  load(model: PolledModel, isWanted: () => boolean): Promise<void>
  /** A model came, went or changed its readiness. */
  changed(): void
}

const lazyReason = 'not loaded yet: it is lazy, the first request loads it'
const noRoomReason = 'not loaded yet: no room within --model-memory-limit, the first request loads it'

export class ModelSleep {
  readonly #dependencies: SleepDependencies
  readonly #settings: LoadSettings
  readonly #log: Log
  readonly #clock: Clock

  constructor(dependencies: SleepDependencies, settings: LoadSettings) {
    this.#dependencies = dependencies
    this.#settings = settings
    this.#log = dependencies.log.from('model-sleep.ts')
    this.#clock = dependencies.clock
  }

  /** Puts a model to sleep that does not serve. False: the model must be loaded now. */
  async begin(model: ServedModel, { polled, versions }: SleepPlan): Promise<boolean> {
    const { directory, residency } = this.#dependencies
    const maxQueueSize = queueBound(this.#settings, polled.config, 1)
    const reason = residency.isLazy(polled) ? lazyReason : noRoomReason
    const sleeping = this.#sleepingModel(model.key, { maxQueueSize, reason })
    try {
      const draft = draftOf(polled, directory.byKey)
      for (const version of versions) {
        const files = filesOf(polled, version)
        const { config, signature } = await describeVersion(this.#dependencies, this.#settings, draft, files)
        sleeping.add(version, config, signature)
      }
    } catch {
      // The load that follows tells the client what is wrong.
      return false
    }
    model.sleeping?.dismiss(`model '${model.label}' has changed, send it again`)
    residency.adopt(model, residency.settingsOf(polled))
    model.failure = ''
    directory.list(model, true)
    model.sleep(sleeping, polled.fingerprint)
    this.#dependencies.changed()
    return true
  }

  /** Takes a model that serves out of memory. False: the model is in use, is being changed, or does not serve. */
  async putToSleep(model: ServedModel, reason: string): Promise<boolean> {
    const { changes, recorder, residency, patience } = this.#dependencies
    // A load of this model may wait for room too: to wait for that load here could be a deadlock.
    if (changes.has(model.key)) return false
    return changes.run(model.key, async () => {
      const { latest, from, ready } = model
      if (latest === null || model.isInUse || from.upload !== null) return false
      recorder.sleeps(model, reason)
      const maxQueueSize = queueBound(this.#settings, latest.config, 1)
      const sleeping = this.#sleepingModel(model.key, { maxQueueSize, reason })
      for (const { version, config, signature } of ready) sleeping.add(version, config, signature)
      model.sleep(sleeping, from.fingerprint)
      residency.unwatch(model)
      this.#dependencies.changed()
      await Promise.all(ready.map((version) => version.unload(patience)))
      model.memoryBytes = 0
      model.gpuBytes = new Map()
      this.#dependencies.changed()
      return true
    })
  }

  #sleepingModel(key: ModelKey, settings: SleepingSettings): SleepingModel {
    const wake = (model: SleepingModel): void => this.#dependencies.changes.include(this.#wake(model))
    return new SleepingModel(this.#clock, wake, key, settings)
  }

  /** Never rejects. */
  async #wake(sleeping: SleepingModel): Promise<void> {
    const { key } = sleeping
    const { directory, repository, ledger } = this.#dependencies
    const models = directory.byKey
    const startedNs = this.#clock.nowNs()
    try {
      const polled = await repository.pollOne(key, models.get(key)?.from.override ?? null)
      if (polled === null) throw new ServerError('NOT_FOUND', `no repository has it any more`)
      const isWanted = (): boolean => models.get(key)?.sleeping === sleeping
      // The model may have been unloaded or replaced meanwhile; then its requests have been answered.
      if (isWanted()) {
        await this.#dependencies.load(polled, isWanted)
        ledger.coldStart(splitModelKey(key).name, (this.#clock.nowNs() - startedNs) / 1e9)
      }
    } catch (reason) {
      const error = ServerError.from(reason)
      this.#log.error(`failed to load '${modelLabel(key)}' for the first request: ${error.message.trimEnd()}`)
      sleeping.fail(error)
    }
    sleeping.isWaking = false
    this.#dependencies.changed()
  }
}

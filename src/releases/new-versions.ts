// New versions in the folders of models: which versions are in memory, and when a new one begins a rollout.

import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { VersionRule } from '../engine/lifecycle/version-rule.ts'
import type { ModelKey } from '../model/model-key.ts'
import type { FoundModel } from '../repository/model-repository.ts'
import { selectVersions } from '../repository/version-policy.ts'
import type { ExperimentPlan } from '../rollouts/rollout-plan.ts'
import { labelOfKey, type ModelFleet } from './model-fleet.ts'
import type { PinBook } from './pin-book.ts'
import type { ReleaseRun } from './release-json.ts'
import type { NewRelease } from './release-maker.ts'
import type { HeldVersion } from './release-record.ts'
import { problemText, type FoundRolloutFile } from './rollout-files.ts'
import { selectRelease } from './select-release.ts'
import type { SharedRollouts } from './shared-rollouts.ts'

type NewVersionParts = {
  readonly log: Log
  readonly fleet: ModelFleet
  readonly pins: PinBook
  readonly shared: SharedRollouts | null
  /** The control that has the rollouts. */
  readonly control: {
    runs(): Iterable<ReleaseRun>
    liveOf(model: string): ReleaseRun | null
    create(wanted: NewRelease): Promise<ReleaseRun>
    watch(watch: (run: ReleaseRun) => void): () => void
    /** Hears what the other servers have begun. */
    sync(): Promise<void>
  }
}

type Newcomer = { readonly version: string; readonly file: FoundRolloutFile }

export class NewVersions implements VersionRule {
  readonly #parts: NewVersionParts
  /** New versions that a look at the repository has found, by model. */
  readonly #newcomers = new Map<string, Newcomer>()
  readonly #takeovers = new Map<string, { readonly version: string; readonly repository: string }>()
  /** What was last said about a rollout file, by model. */
  readonly #reported = new Map<string, string>()

  constructor(parts: NewVersionParts) {
    this.#parts = parts
  }

  async select(key: ModelKey, polled: FoundModel, isRenewal: boolean): Promise<readonly string[] | null> {
    const model = labelOfKey(key)
    const { fleet, pins: book, control } = this.#parts
    const file = await fleet.rolloutFile(polled)
    this.#reportFile(model, file)
    await book.welcome(model, polled.repositoryPath)
    const pins = book.in(model, polled.repositoryPath)
    const all = [...control.runs()].filter((run) => run.record.arms.some((arm) => arm.model === model))
    const runs = all.filter((run) => !run.isOver || (run === all.at(-1) && isKeeping(run)))
    const serving = book.servingOthers(model)
    if (pins === null && file.file === '' && runs.length === 0 && serving.length === 0) return null
    const standard = pins?.standard || fleet.standardOf(model)
    const { chosen, newcomer, takesOver } = selectRelease({
      present: polled.versions,
      ofPolicy: (versions) => selectVersions(polled.config.versionPolicy, versions),
      held: await this.#heldIn(polled, pins?.held ?? []),
      standard,
      newest: pins?.newest || standard,
      hasFile: file.file !== '',
      isRenewal,
      needed: new Set([...serving, ...runs.flatMap((run) => run.neededVersions(model))]),
      candidates: new Set(runs.filter((run) => run.isLive).flatMap((run) => run.broughtVersions(model))),
    })
    const isWaiting = newcomer !== null && file.file !== ''
    this.#note(this.#newcomers, model, isWaiting ? { version: newcomer, file } : null)
    const repository = polled.repositoryPath
    this.#note(this.#takeovers, model, takesOver === null || pins === null ? null : { version: takesOver, repository })
    return chosen
  }

  #note<T>(map: Map<string, T>, model: string, value: T | null): void {
    if (value === null) map.delete(model)
    else map.set(model, value)
  }

  async #heldIn(polled: FoundModel, held: readonly HeldVersion[]): Promise<Set<string>> {
    const found = new Set<string>()
    for (const { version, hash, model: other } of held) {
      // Another model serves under its own name as before.
      if (other !== undefined || !polled.versions.includes(version)) continue
      if ((await this.#parts.fleet.hashOf(polled, version)) === hash) found.add(version)
    }
    return found
  }

  async afterLoad(name: string, isAsked: boolean): Promise<string> {
    const { fleet } = this.#parts
    const served = fleet.engine.servedModel(name)
    if (served === undefined) return ''
    const model = served.label
    const takeover = this.#takeovers.get(model)
    if (takeover !== undefined) {
      this.#takeovers.delete(model)
      await this.#parts.pins.change(model, takeover.repository, { standard: '', newest: takeover.version })
    }
    const newcomer = this.#newcomers.get(model)
    this.#newcomers.delete(model)
    if (newcomer === undefined) {
      await this.#pinFirst(model)
      return ''
    }
    return await this.#bringIn(model, newcomer, isAsked).catch((reason: unknown) => {
      // The shared store may be away: then the version waits for it.
      if (this.#parts.shared?.isAway === true) this.#newcomers.set(model, newcomer)
      throw reason
    })
  }

  /** What waited for the shared store, or for the end of another rollout, may come. */
  async tryAgain(): Promise<void> {
    for (const model of this.#newcomers.keys().toArray()) {
      await this.afterLoad(model, false).catch((reason: unknown) => this.#parts.log.error(messageOf(reason)))
    }
  }

  /** A model with a rollout file remembers which version serves: one that comes while the server is down is new, too. */
  async #pinFirst(model: string): Promise<void> {
    const { fleet } = this.#parts
    const standard = fleet.standardOf(model)
    if (standard === '' || this.#parts.pins.of(model) !== null || fleet.isUploaded(model)) return
    const polled = await fleet.poll(model).catch(() => null)
    if (polled === null || (await fleet.rolloutFile(polled)).file === '') return
    await this.#parts.pins
      .change(model, polled.repositoryPath, { standard, newest: standard })
      .catch((reason: unknown) => {
        this.#parts.log.error(`the version of model '${model}' cannot be kept: ${messageOf(reason)}`)
      })
  }

  async #bringIn(model: string, { version, file }: Newcomer, isAsked: boolean): Promise<string> {
    const { control } = this.#parts
    if (file.plan === null) {
      const [first] = file.problems
      const why = `version ${version} of model '${model}' waits: the rollout file has a mistake: ${first === undefined ? '' : problemText(file.file, first)}`
      if (isAsked) throw new ServerError('INVALID_ARG', why)
      this.#parts.log.error(why)
      return ''
    }
    if (file.plan.kind === 'experiment' && !namesVersion(file.plan, version)) {
      const why = `version ${version} of model '${model}' waits: the experiment in '${file.file}' has no arm with this version`
      if (isAsked) throw new ServerError('INVALID_ARG', why)
      this.#parts.log.warning(why)
      return ''
    }
    // Another server may have begun the same rollout a moment ago.
    await control.sync()
    const live = control.liveOf(model)
    if (live?.broughtVersions(model).includes(version) === true) {
      if (isAsked) await this.#begun(live)
      return live.record.name
    }
    if (live !== null) {
      const refusal =
        live.kind === 'rollout'
          ? live.dispatch({ type: 'superseded', version })
          : `version ${version} of model '${model}' waits for the end of the experiment '${live.record.name}'`
      if (refusal !== null) {
        this.#parts.log.info(refusal)
        return ''
      }
    }
    const plan = file.plan.kind === 'experiment' ? file.plan : { ...file.plan, candidate: { model: null, version } }
    const why = `version ${version} has appeared`
    const wanted = { name: '', model, plan, spec: file.spec, author: '', why, isRetry: false }
    const run = await control.create(wanted)
    if (isAsked) await this.#begun(run)
    return run.record.name
  }

  /** Resolves when the rollout runs; throws when it fails before. */
  #begun(run: ReleaseRun): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const { phase, why } = run.record.state
        if (phase === 'PENDING') return
        stop()
        if (phase === 'FAILED')
          reject(new ServerError('INVALID_ARG', `load failed for model '${run.record.model}': the rollout '${run.record.name}' failed: ${why}`)) // prettier-ignore
        else resolve()
      }
      const stop = this.#parts.control.watch((changed) => (changed === run ? look() : undefined))
      look()
    })
  }

  #reportFile(model: string, { file, problems }: FoundRolloutFile): void {
    const text = problems.map((problem) => problemText(file, problem)).join('\n')
    if ((this.#reported.get(model) ?? '') === text) return
    this.#reported.set(model, text)
    for (const line of text.split('\n'))
      if (line !== '') this.#parts.log.error(`rollout file of model '${model}': ${line}`)
  }
}

/** Whether one of the arms is this version of the model that has the file. */
const namesVersion = ({ arms }: ExperimentPlan, version: string): boolean =>
  arms.some(({ reference: { model, version: named } }) => model === null && (named === version || named === 'latest'))

/** It keeps its withdrawn version for a look, until another rollout begins. */
const isKeeping = (run: ReleaseRun): boolean =>
  run.kind === 'rollout' && run.record.state.phase === 'ROLLED_BACK' && run.record.plan.isCandidateKept

// All rollouts of a server: starts one when a new version appears or when somebody posts one, ticks them, and tells the Engine
// which versions are in memory.

import type { Caller } from '../access/caller.ts'
import type { Cancel } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { RolloutFigures } from '../telemetry/rollout-families.ts'
import { NewVersions } from './new-versions.ts'
import { PinBook } from './pin-book.ts'
import { PinSync } from './pin-sync.ts'
import { releaseFigures, type ReleaseRun } from './release-json.ts'
import { isOpenRecord, ReleaseMaker, type MakerParts, type NewRelease } from './release-maker.ts'
import type { ReleaseNote, ReleaseRecord } from './release-record.ts'
import { ReleaseSync } from './release-sync.ts'
import type { FoundRolloutFile } from './rollout-files.ts'
import type { RolloutAction } from './rollout-run.ts'
import { VersionLabels } from './version-labels.ts'

type ControlParts = Omit<MakerParts, 'pins' | 'changed' | 'released'>

/** Rollouts that have ended are kept; beyond this many the oldest ones are forgotten. */
const mostRollouts = 1000
const mostNotes = 200
const longestNote = 4096
/** Of all notes of a rollout, as they are kept: servers that share rollouts read no record above 4 MiB. */
const mostNoteBytes = 512 * 1024
const tickNs = 1e9

export class ReleaseControl {
  readonly #parts: ControlParts
  readonly #log: Log
  readonly #maker: ReleaseMaker
  readonly pins: PinBook
  readonly #pinSync: PinSync | null
  readonly labels: VersionLabels
  /** Tells the Engine which versions to load. */
  readonly versions: NewVersions
  /** By name, oldest first. */
  readonly #runs = new Map<string, ReleaseRun>()
  /** Models for which a rollout is being made. */
  readonly #beginning = new Set<string>()
  readonly #watchers = new Set<(run: ReleaseRun) => void>()
  #cancelTick: Cancel | null = null
  #sync: ReleaseSync | null = null
  #isClosed = false

  constructor(parts: ControlParts) {
    const log = parts.log.from('release-control.ts')
    this.#parts = parts
    this.#log = log
    this.pins = new PinBook(parts.fleet, parts.store, (model, change) => this.#pinSync?.changed(model, change))
    const { shared, fleet } = parts
    this.#pinSync = shared === null ? null : new PinSync({ log, fleet, pins: this.pins, shared })
    const candidateOf = (model: string): string | null => {
      const live = this.liveOf(model)
      return live?.kind === 'rollout' && live.candidate.model === model ? live.candidate.version : null
    }
    this.labels = new VersionLabels(parts.fleet, this.pins, candidateOf)
    const runs = (): Iterable<ReleaseRun> => this.#runs.values()
    const control = {
      runs,
      liveOf: (model: string) => this.liveOf(model),
      create: (wanted: NewRelease) => this.create(wanted),
      watch: (watch: (run: ReleaseRun) => void) => this.watch(watch),
      sync: async () => this.#sync?.now(),
    }
    this.versions = new NewVersions({ ...parts, log, pins: this.pins, control })
    const changed = (run: ReleaseRun): void => this.#changed(run)
    const released = (): void => void this.versions.tryAgain()
    this.#maker = new ReleaseMaker({ ...parts, log, pins: this.pins, changed, released }, (name) =>
      this.#runs.has(name),
    )
  }

  /** Before the models are loaded: the standard versions must be known by then. */
  async restore(): Promise<void> {
    const { records, pins } = await this.#parts.store.read()
    this.pins.restore(pins)
    await this.#pinSync?.exchange().catch((reason: unknown) => {
      this.#log.warning(`default versions and labels of other servers are not known yet: ${messageOf(reason)}`)
    })
    for (const record of records.toSorted((a, b) => a.createdMs - b.createdMs)) {
      this.#runs.set(record.name, this.#maker.restore(record))
    }
  }

  /** Another server has changed a rollout. */
  readonly heard = (): void => void this.#sync?.now()

  /** After the models are loaded. */
  async start(): Promise<void> {
    const { shared, clock } = this.#parts
    if (shared !== null) {
      // This server hears of its own writes, too.
      const join = async (record: ReleaseRecord): Promise<ReleaseRun | null> =>
        this.#beginning.has(record.model) ? null : await this.#join(record)
      const back = (): void => void this.versions.tryAgain()
      const pins = async (): Promise<void> => this.#pinSync?.exchange()
      this.#sync = new ReleaseSync({ clock, log: this.#log, shared, pins, runs: () => this.#runs, join, back })
      await this.#sync.now()
      this.#sync.start()
    }
    for (const run of this.#runs.values()) if (!run.isOver) run.restored()
    this.#tickLater()
    for (const { name, namespace } of this.#parts.fleet.engine.index()) {
      await this.versions
        .afterLoad(namespace === undefined ? name : `${namespace}::${name}`, false)
        .catch((reason: unknown) =>
          this.#log.error(`the rollout of model '${name}' could not be started: ${messageOf(reason)}`),
        )
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelTick?.()
    this.#sync?.close()
    await Promise.all(this.#runs.values().map((run) => run.close()))
    await this.#parts.store.close()
    await this.#parts.shared?.close()
  }

  /** Newest first. */
  list(): ReleaseRun[] {
    return [...this.#runs.values()].toReversed()
  }

  /** Throws NOT_FOUND. */
  get(name: string): ReleaseRun {
    const run = this.#runs.get(name)
    if (run !== undefined) return run
    throw ServerError.withoutStack('NOT_FOUND', `there is no rollout '${name.slice(0, 200)}'; GET /v2/rollouts lists them`) // prettier-ignore
  }

  /** Throws NOT_FOUND when there is no such model. */
  async fileOf(model: string): Promise<FoundRolloutFile> {
    return this.#parts.fleet.rolloutFile(await this.#parts.fleet.poll(model))
  }

  /** For metrics. */
  readonly rollouts = (): readonly RolloutFigures[] =>
    this.#runs
      .values()
      .map((run) => releaseFigures(run))
      .toArray()

  /** For metrics. */
  readonly results = (): ReadonlyMap<string, number> => {
    const results = new Map<string, number>()
    for (const { isLive, record } of this.#runs.values()) {
      const { phase } = record.state
      if (!isLive && phase !== 'ROLLING_BACK')
        results.set(phase.toLowerCase(), (results.get(phase.toLowerCase()) ?? 0) + 1)
    }
    return results
  }

  liveOf(model: string): ReleaseRun | null {
    return this.#runs.values().find((run) => run.record.model === model && run.isLive) ?? null
  }

  /** Calls `watch` after every change of a rollout; the result takes it back. */
  watch(watch: (run: ReleaseRun) => void): () => void {
    this.#watchers.add(watch)
    return () => void this.#watchers.delete(watch)
  }

  /** Throws ALREADY_EXISTS when the state of the rollout forbids it. */
  act(name: string, action: RolloutAction, caller: Caller, reason: string, arm: string): ReleaseRun {
    const run = this.get(name)
    const why = reason === '' ? `somebody asked for it` : reason
    const refusal = run.act({ action, by: callerName(caller), groups: caller.groups, why, arm })
    if (refusal !== null) throw ServerError.withoutStack('ALREADY_EXISTS', refusal)
    return run
  }

  async note(name: string, caller: Caller, text: string): Promise<ReleaseRun> {
    const run = this.get(name)
    if (text.trim() === '') throw new ServerError('INVALID_ARG', 'a note needs a text: send {"text": "…"}')
    if (text.length > longestNote) throw new ServerError('INVALID_ARG', `a note has at most ${longestNote} characters, got ${text.length}`) // prettier-ignore
    if (run.record.notes.length >= mostNotes) throw new ServerError('INVALID_ARG', `rollout '${name}' has ${mostNotes} notes, which is the most`) // prettier-ignore
    const note: ReleaseNote = { at: new Date(this.#parts.clock.wallMs()).toISOString(), by: callerName(caller), text }
    const noteBytes = Buffer.byteLength(JSON.stringify([...run.record.notes, note]))
    if (noteBytes > mostNoteBytes) throw new ServerError('INVALID_ARG', `the notes of rollout '${name}' would have ${noteBytes} bytes, at most ${mostNoteBytes} are kept`) // prettier-ignore
    await run.note(note)
    return run
  }

  /** Throws ALREADY_EXISTS when the model has a live rollout, and INVALID_ARG for versions that are not there. */
  async create(wanted: NewRelease): Promise<ReleaseRun> {
    const { model } = wanted
    const live = this.liveOf(model)
    if (live !== null || this.#beginning.has(model)) {
      const which =
        live === null ? 'a rollout' : `the ${live.kind} '${live.record.name}', which is ${live.record.state.phase}`
      throw new ServerError('ALREADY_EXISTS', `model '${model}' has ${which}: end it first, by promote or rollback`)
    }
    this.#beginning.add(model)
    try {
      return await this.#create(wanted)
    } finally {
      this.#beginning.delete(model)
      this.#maker.settled(model)
    }
  }

  async #create(wanted: NewRelease): Promise<ReleaseRun> {
    const made = await this.#maker.make(wanted)
    if ('other' in made) return await this.#joinInstead(made.other)
    this.#runs.set(made.run.record.name, made.run)
    this.#forgetOldest()
    made.begin()
    this.#tickLater()
    return made.run
  }

  /** Another server was quicker with a rollout of the same name. */
  async #joinInstead(record: ReleaseRecord): Promise<ReleaseRun> {
    const run = this.#runs.get(record.name) ?? (await this.#join(record))
    if (run === null) {
      throw new ServerError(
        'ALREADY_EXISTS',
        `another server has the rollout '${record.name}', which this server cannot join`,
      )
    }
    run.adopt(record)
    this.#tickLater()
    return run
  }

  /** Null: this server cannot take part, and says why. */
  async #join(record: ReleaseRecord): Promise<ReleaseRun | null> {
    const run = await this.#maker.join(record)
    const known = this.#runs.get(record.name)
    if (run === null || known !== undefined) return known ?? null
    this.#runs.set(record.name, run)
    if (isOpenRecord(record)) run.restored()
    return run
  }

  #changed(run: ReleaseRun): void {
    for (const watch of this.#watchers) watch(run)
    this.#tickLater()
  }

  /** A server without rollouts has no timer. */
  #tickLater(): void {
    if (this.#cancelTick !== null || this.#isClosed) return
    if (!this.#runs.values().some((run) => !run.isOver)) return
    this.#cancelTick = this.#parts.clock.after(tickNs, () => {
      this.#cancelTick = null
      for (const run of this.#runs.values()) {
        if (run.isOver) continue
        try {
          run.tick()
        } catch (reason) {
          this.#log.error(`rollout '${run.record.name}' could not be judged: ${messageOf(reason)}`)
        }
      }
      this.#tickLater()
    })
  }

  #forgetOldest(): void {
    const over = this.#runs
      .values()
      .filter((run) => run.isOver)
      .toArray()
    for (const run of over.slice(0, Math.max(0, this.#runs.size - mostRollouts))) {
      this.#runs.delete(run.record.name)
      void this.#parts.store.removeRecord(run.record.name).catch(() => undefined)
    }
  }
}

const callerName = ({ principal }: Caller): string => principal

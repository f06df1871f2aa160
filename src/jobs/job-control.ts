// All jobs of a server: begins them, keeps what they have done, and brings them back after a restart.

import { randomBytes } from 'node:crypto'
import type { Caller } from '../access/caller.ts'
import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { CronSchedule } from './cron-schedule.ts'
import type { JobInput, JobOutput } from './job-channel.ts'
import type { LineAnswer, LineCall } from './job-line.ts'
import { isQueueKind, mostJobConcurrency, type JobPlan } from './job-plan.ts'
import { isBatch, isJobOver, type JobRecord } from './job-record.ts'
import { JobRun } from './job-run.ts'
import { nextJobs } from './next-jobs.ts'
import { oldestToForget } from './oldest-to-forget.ts'
import { lineRoom, type ModelLoad } from './line-room.ts'

/** Where jobs outlive the server. */
export interface JobKeeper {
  read(): Promise<JobRecord[]>
  save(record: JobRecord): Promise<void>
  /** The lines that came with a job, or the path of a file of lines, which may be removed afterwards. */
  saveLines(id: string, lines: readonly string[] | string): Promise<void>
  remove(id: string): Promise<void>
  /** Another server may have the jobs. */
  close?(): Promise<void>
}

type JobParts = {
  readonly clock: Clock
  readonly log: Log
  readonly store: JobKeeper
  /** Null: the model is not there. */
  readonly loadOf: (model: string, version: string) => ModelLoad | null
  /** Refuses plans that this server cannot carry out. Throws ServerError. */
  check(plan: JobPlan): Promise<void>
  open(record: JobRecord, concurrency: number): Promise<{ readonly input: JobInput; readonly output: JobOutput }>
  readonly call: (record: JobRecord, call: LineCall, signal: AbortSignal) => Promise<LineAnswer>
  /** The job was cancelled: what its output began and did not end is given up. */
  discard(record: JobRecord): Promise<void>
  readonly counted: (model: string, outcome: 'done' | 'failed' | 'dead', count: number) => void
  /** Of a line that is a call of the OpenAI API: `--openai-max-request-bytes`. */
  readonly mostCallBytes: number
}

/** What a job shows beside its record. */
export type JobView = {
  readonly record: JobRecord
  readonly runningCount: number
  readonly standsStillBecause: string
  /** Lines a second, over the last run. */
  readonly rate: number
  readonly left: number | null
  readonly nextRunMs: number | null
}

type Job = {
  readonly record: JobRecord
  run: JobRun | null
  input: JobInput | null
  ended: Promise<void>
  doneBefore: number
  cancelTimer: Cancel | null
  nextRunMs: number | null
  isStopping: boolean
  /** From its start to its end, with the waits between two tries. */
  isUnderWay: boolean
}

const mostJobs = 1000
/** At most so many run at the same time; the others wait for their turn. */
const mostRunningJobs = 16
const firstRetryNs = 1e9
const longestRetryNs = 30e9

export class JobControl {
  readonly #parts: JobParts
  readonly #log: Log
  readonly #jobs = new Map<string, Job>()
  #isClosed = false
  /** Jobs that are being kept and are not in the list yet. */
  #comingCount = 0

  constructor(parts: JobParts) {
    this.#parts = parts
    this.#log = parts.log.from('job-control.ts')
  }

  /** Jobs of an earlier run of the server go on where they were. */
  async restore(): Promise<void> {
    for (const record of await this.#parts.store.read()) this.#jobs.set(record.id, newJob(record))
  }

  start(): void {
    for (const job of this.#jobs.values()) {
      if (job.record.state === 'WAITING') this.#schedule(job)
    }
    this.#beginNext()
  }

  list(): JobRecord[] {
    return [...this.#jobs.values()].map(({ record }) => record).toReversed()
  }

  async view(id: string): Promise<JobView> {
    const job = this.#get(id)
    const { record, run, input, nextRunMs } = job
    const secs = ((record.endedMs || this.#parts.clock.wallMs()) - record.startedMs) / 1000
    const left = await input?.left().catch(() => null)
    return {
      record,
      runningCount: run?.runningCount ?? 0,
      standsStillBecause: run?.standsStillBecause ?? '',
      rate: record.startedMs === 0 || secs <= 0 ? 0 : (record.done + record.failed - job.doneBefore) / secs,
      left: left ?? null,
      nextRunMs,
    }
  }

  async create(
    plan: JobPlan,
    lines: readonly string[] | string,
    { kind, principal, tenant }: Pick<Caller, 'kind' | 'principal' | 'tenant'>,
    wantedId?: string,
  ): Promise<JobRecord> {
    await this.#parts.check(plan)
    if (wantedId !== undefined && this.#jobs.has(wantedId)) return this.#get(wantedId).record
    await this.#makeRoom()
    this.#comingCount++
    try {
      return await this.#keep(plan, lines, { kind, principal, tenant }, wantedId)
    } finally {
      this.#comingCount--
    }
  }

  async #keep(
    plan: JobPlan,
    lines: readonly string[] | string,
    { kind, principal, tenant }: Pick<Caller, 'kind' | 'principal' | 'tenant'>,
    wantedId: string | undefined,
  ): Promise<JobRecord> {
    const record: JobRecord = {
      id: wantedId ?? `job_${randomBytes(9).toString('base64url').replaceAll(/[-_]/g, '0')}`,
      plan,
      author: principal,
      authorKind: kind,
      tenant,
      createdMs: this.#parts.clock.wallMs(),
      state: plan.schedule === '' ? 'RUNNING' : 'WAITING',
      reason: '',
      done: 0,
      failed: 0,
      dead: 0,
      position: null,
      startedMs: 0,
      endedMs: 0,
    }
    if (plan.input.kind === 'lines') await this.#parts.store.saveLines(record.id, lines)
    await this.#parts.store.save(record)
    const job = newJob(record)
    this.#jobs.set(record.id, job)
    if (record.state === 'WAITING') this.#schedule(job)
    this.#beginNext()
    return record
  }

  async pause(id: string): Promise<JobRecord> {
    const job = this.#requireOpen(id)
    job.cancelTimer?.()
    job.record.state = 'PAUSED'
    await this.#stop(job)
    await this.#parts.store.save(job.record)
    this.#beginNext()
    return job.record
  }

  /** A job that failed goes on where it stopped, too; one that was paused between two runs of its schedule waits for the next one. */
  async resume(id: string): Promise<JobRecord> {
    const job = this.#get(id)
    const { record } = job
    if (record.state === 'DONE' || record.state === 'CANCELLED') throw new ServerError('ALREADY_EXISTS', `job '${id}' is ${record.state} and cannot go on; post a new one`) // prettier-ignore
    if (record.state === 'PAUSED' && isBetweenRuns(record)) {
      record.state = 'WAITING'
      this.#schedule(job)
      await this.#parts.store.save(record)
    } else if (record.state === 'PAUSED' || record.state === 'FAILED') {
      record.state = 'RUNNING'
      record.reason = ''
      record.endedMs = 0
      await this.#parts.store.save(record)
      this.#beginNext()
    }
    return record
  }

  async cancel(id: string): Promise<JobRecord> {
    const job = this.#requireOpen(id)
    job.cancelTimer?.()
    job.record.state = 'CANCELLED'
    job.record.endedMs = this.#parts.clock.wallMs()
    await this.#stop(job)
    await this.#parts.store.save(job.record)
    await this.#parts.discard(job.record).catch((reason: unknown) => this.#log.warning(`job '${id}' leaves an upload behind: ${messageOf(reason)}`)) // prettier-ignore
    this.#beginNext()
    return job.record
  }

  /** The server ends: what runs now goes on after the next start. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const job of this.#jobs.values()) job.cancelTimer?.()
    await Promise.all([...this.#jobs.values()].map((job) => this.#stop(job)))
    await this.#parts.store.close?.()
  }

  #get(id: string): Job {
    const job = this.#jobs.get(id)
    if (job === undefined) throw new ServerError('NOT_FOUND', `there is no job '${id.slice(0, 60)}'`)
    return job
  }

  #requireOpen(id: string): Job {
    const job = this.#get(id)
    if (isJobOver(job.record)) throw new ServerError('ALREADY_EXISTS', `job '${id}' is ${job.record.state} already`)
    return job
  }

  /** A job that is over makes room for a new one. */
  async #makeRoom(): Promise<void> {
    if (this.#jobs.size + this.#comingCount < mostJobs) return
    const old = oldestToForget([...this.#jobs.values()], ownerOf, ({ record }) => isJobOver(record)) // prettier-ignore
    if (old === undefined) throw new ServerError('UNAVAILABLE', `${mostJobs} jobs are under way, which is the most: cancel one, or wait for its end`) // prettier-ignore
    this.#jobs.delete(old.record.id)
    await this.#parts.store.remove(old.record.id)
  }

  #schedule(job: Job): void {
    if (this.#isClosed) return
    const schedule = CronSchedule.parse(job.record.plan.schedule)
    const { clock } = this.#parts
    const at = typeof schedule === 'string' ? null : schedule.next(clock.wallMs())
    job.nextRunMs = at
    if (at === null) return
    job.cancelTimer = clock.after((at - clock.wallMs()) * 1e6, () => {
      Object.assign(job.record, {
        state: 'RUNNING',
        done: 0,
        failed: 0,
        dead: 0,
        position: null,
        reason: '',
        endedMs: 0,
      })
      job.nextRunMs = null
      this.#beginNext()
    })
  }

  #beginNext(): void {
    if (this.#isClosed) return
    const { begin, giveWay } = nextJobs([...this.#jobs.values()], turnOf, mostRunningJobs)
    for (const job of begin) {
      job.isUnderWay = true
      job.ended = this.#carryOut(job)
    }
    if (giveWay !== null) void this.#giveWay(giveWay)
  }

  /** The job stays RUNNING, and goes on at its checkpoint when a place is free. */
  async #giveWay(job: Job): Promise<void> {
    this.#log.info(`job '${job.record.id}' waits: ${mostRunningJobs} jobs run, and a caller with fewer of them has one that waits`) // prettier-ignore
    await this.#stop(job)
    this.#beginNext()
  }

  async #stop(job: Job): Promise<void> {
    job.isStopping = true
    job.run?.stop()
    job.cancelTimer?.()
    await job.ended
    job.isStopping = false
  }

  /** Runs a job to its end. A queue that is away is tried again; a file that cannot be read or written is not. */
  async #carryOut(job: Job): Promise<void> {
    const { record } = job
    const { clock, store } = this.#parts
    const isQueue = isQueueKind(record.plan.input.kind)
    job.doneBefore = record.done + record.failed
    record.startedMs = clock.wallMs()
    // The first run of a queue that does not stand is the caller's to hear of; later ones are tried again.
    for (let retryNs = firstRetryNs; !job.isStopping; retryNs = Math.min(retryNs * 2, longestRetryNs)) {
      try {
        const isAtEnd = await this.#runOnce(job)
        record.reason = ''
        if (isAtEnd) this.#end(job, 'DONE', '')
        break
      } catch (reason) {
        if (isQueue && !job.isStopping) {
          record.reason = messageOf(reason)
          this.#log.warning(`job '${record.id}' waits: ${record.reason}`)
          await new Promise<void>((resolve) => {
            const cancel = clock.after(retryNs, resolve)
            job.cancelTimer = () => (cancel(), resolve())
          })
        } else {
          if (!job.isStopping) this.#end(job, 'FAILED', messageOf(reason))
          break
        }
      }
    }
    job.run = null
    job.isUnderWay = false
    await store.save(record).catch((reason: unknown) => this.#log.error(`job '${record.id}' cannot be kept: ${messageOf(reason)}`)) // prettier-ignore
    if (!job.isStopping) this.#beginNext()
  }

  #end(job: Job, state: 'DONE' | 'FAILED', reason: string): void {
    const { record } = job
    const isRepeated = record.plan.schedule !== '' && state === 'DONE'
    // Whoever paused or cancelled the job while its last answers were kept wants no other run.
    const next = record.state === 'RUNNING' ? 'WAITING' : record.state
    Object.assign(record, { state: isRepeated ? next : state, reason, endedMs: this.#parts.clock.wallMs() })
    const counts = `${record.done} lines answered, ${record.failed} failed`
    if (state === 'FAILED') this.#log.error(`job '${record.id}' failed: ${reason} (${counts})`)
    else this.#log.info(`job '${record.id}' is done: ${counts}`)
    if (record.state === 'WAITING') this.#schedule(job)
  }

  async #runOnce(job: Job): Promise<boolean> {
    const { record } = job
    const { clock, store, loadOf, counted, call } = this.#parts
    const { plan } = record
    const concurrency = plan.concurrency || concurrencyOf(loadOf(plan.model, plan.version))
    const { input, output } = await this.#parts.open(record, concurrency)
    job.input = input
    try {
      if (job.isStopping) return false
      const run = new JobRun({
        clock,
        input,
        output,
        inferTarget: inferTarget(plan),
        onlyModel: isBatch(record) ? '' : plan.model,
        mostCallBytes: this.#parts.mostCallBytes,
        concurrency,
        maxAttempts: plan.maxAttempts,
        call: (line, signal) => call(record, line, signal),
        room: (ownCount) => lineRoom(loadOf(plan.model, plan.version), ownCount, plan.whilePressureBelow),
        counted: (outcome, count) => {
          record[outcome] += count
          counted(plan.model, outcome, count)
        },
        checkpoint: (position) => {
          record.position = position
          return store.save(record)
        },
      })
      job.run = run
      return await run.run()
    } finally {
      job.input = null
      await Promise.allSettled([input.close(), output.close()])
    }
  }
}

/** Of a job with a schedule: its last run has ended, or it never ran. */
const isBetweenRuns = ({ plan, startedMs, endedMs }: JobRecord): boolean =>
  plan.schedule !== '' && (startedMs === 0 || endedMs !== 0)

const ownerOf = ({ record }: Job): string => `${record.tenant}/${record.author}`

const turnOf = (job: Job): ReturnType<Parameters<typeof nextJobs<Job>>[1]> => ({
  owner: ownerOf(job),
  place: job.isUnderWay ? (job.isStopping ? 'ending' : 'running') : job.record.state === 'RUNNING' && !job.isStopping ? 'waiting' : 'none', // prettier-ignore
})

const newJob = (record: JobRecord): Job => ({
  record,
  run: null,
  input: null,
  ended: Promise.resolve(),
  doneBefore: 0,
  cancelTimer: null,
  nextRunMs: null,
  isStopping: false,
  isUnderWay: false,
})

const inferTarget = ({ model, version }: JobPlan): string =>
  `/v2/models/${model}${version === '' ? '' : `/versions/${version}`}/infer`

/** Enough to keep every instance busy with full batches. */
const concurrencyOf = (load: ModelLoad | null): number =>
  load === null ? 1 : Math.max(1, Math.min(load.instanceCount * load.batchSize, mostJobConcurrency))

// An Instance with a Worker (thread or process) that may die at any time. This class does the same for all backends:
// it knows which requests the Worker has, has the watchdog, handles a death, and restarts the Worker with back-off.

import { readFile } from 'node:fs/promises'
import { assert } from '../base/assert.ts'
import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { Instance, Prepare } from '../model/backend.ts'
import type { Batch } from '../model/batch.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { worded } from '../model/worded-error.ts'

export interface Worker {
  /** As `Instance.prefetchDepth`. Absent: none. */
  readonly prefetchDepth?: number
  /** As that of an Instance. */
  readonly prepare?: Prepare | undefined
  /** As that of an Instance, where the options say `isShared`. */
  burden?(request: InferenceRequest): number
  /** Only for a Worker that is a process. */
  readonly processId?: number | undefined
  /** Answers the requests and then calls `executed` once, in the order of the batches. Never throws. */
  execute(batch: Batch, executed: () => void): void
  /** The client of a request that this Worker has no longer waits. */
  cancel(request: InferenceRequest): void
  /** The reader of a request's answers fell behind or caught up (`request.isPaused`). For Workers that can wait. */
  flowChanged?(request: InferenceRequest): void
  /** As that of an Instance. */
  pulse?(): Promise<boolean>
  /** Lets the Worker finalize and end, and ends it by force when it takes too long. Resolves when the Worker is gone. */
  stop(): Promise<void>
  /** Ends the Worker now, without `finalize`; `onDeath` follows. */
  kill(): void
}

export type WorkerEvents = {
  /** The Worker is gone or unusable. Called at most once per Worker; after it the Worker answers no request. */
  onDeath(reason: string): void
  /** The model's code says whether it can serve; true until the code says otherwise. */
  onReadiness?(isReady: boolean): void
}

type SupervisedInstanceOptions = {
  readonly name: string
  readonly modelName: string
  /** Resolves when the model is initialised; rejects with a ServerError when that failed. */
  launch(events: WorkerEvents): Promise<Worker>
  readonly onReadinessChange: () => void
  /** As that of an Instance. */
  readonly deviceId?: number | undefined
  readonly hasHostInputs?: boolean
  /** As those of an InstanceSpec. */
  readonly cores?: readonly number[] | undefined
  /** The Worker is ended and replaced when an execution takes longer. 0: no limit. */
  readonly maxExecutionMs: number
  /** The limit holds for answers that come after the execution, too. Absent: such answers may take any time. */
  readonly watchesAnswers?: boolean
  /** The Worker has a `burden`. Absent: it has none. */
  readonly isShared?: boolean
  /** The error text for the clients of a dead Worker, with --triton-defaults. */
  tritonDeathText(reason: string): string
}

const pageBytes = 4096

/** The reason of a Worker that was ended because of its request. */
export const overdueStart = 'execution took'

/**
 * Delay before the next start. A Worker that served is replaced at once: it had loaded, so it will load again. Of others
 * `failures` came one after the other: 100 ms, doubling. A client may end a Worker with its first request, so one that had
 * started is kept away for a second at most; one that does not start, for 30 s.
 */
export function restartDelayMs(failures: number, hadStarted: boolean): number {
  return failures === 0 ? 0 : Math.min(100 * 2 ** (failures - 1), hadStarted ? 1000 : 30_000)
}

/** Binds the process of a Worker to cores. Without cores nothing is read for it. */
export async function pinWorker(processId: number | undefined, cores: readonly number[] = []): Promise<void> {
  if (cores.length === 0) return
  const { pinProcess } = await import('../base/pin-process.ts')
  pinProcess(processId, cores)
}

const unloadedText = 'the model is being unloaded'

/** A Worker that has executed nothing yet and lived this long counts as one that served. */
const soundAfterMs = 1000

/**
 * STARTING → READY → (death) WAITING → STARTING → READY …; CLOSED from anywhere, for good.
 */
type State = 'STARTING' | 'READY' | 'WAITING' | 'CLOSED'

export class SupervisedInstance implements Instance {
  readonly name: string
  readonly deviceId: number | undefined
  readonly hasHostInputs: boolean
  readonly burden: Instance['burden']
  readonly #clock: Clock
  readonly #log: Log
  readonly #options: SupervisedInstanceOptions
  /** Requests that the Worker may still answer. An array, not a Set, for the reason in base/number-table.ts. */
  #held: InferenceRequest[] = []
  #state: State = 'STARTING'
  #worker: Worker | null = null
  /** The launch under way, so that `close` can wait for a Worker that is not yet installed. */
  #launching: Promise<void> | null = null
  #isWilling = true
  /** In the order in which they came: the first batch executes, the others wait in the Worker. */
  #batches: Batch[] = []
  #cancelWait: Cancel | null = null
  #cancelWatchdog: Cancel | null = null
  /** Workers, one after the other, that ended before they served. */
  #failures = 0
  #hasServed = false
  #restartCount = 0
  #readySinceNs = 0
  #lastError = ''

  private constructor(dependencies: { clock: Clock; log: Log }, options: SupervisedInstanceOptions) {
    this.name = options.name
    this.deviceId = options.deviceId
    this.hasHostInputs = options.hasHostInputs === true
    this.burden = options.isShared === true ? (request) => this.#worker?.burden?.(request) ?? Infinity : undefined
    this.#clock = dependencies.clock
    this.#log = dependencies.log
    this.#options = options
  }

  /** Launches the first Worker. When it does not start, the model has failed to load. */
  static async create(
    dependencies: { clock: Clock; log: Log },
    options: SupervisedInstanceOptions,
  ): Promise<SupervisedInstance> {
    const instance = new SupervisedInstance(dependencies, options)
    await instance.#launch()
    return instance
  }

  /** False also while the Worker itself says that it cannot serve. */
  get isReady(): boolean {
    return this.#state === 'READY' && this.#isWilling
  }

  get restartCount(): number {
    return this.#restartCount
  }

  get lastError(): string {
    return this.#lastError
  }

  /** True while the Worker is being restarted: `isReady` tells that, and the Worker does not hang. */
  async pulse(): Promise<boolean> {
    return (await this.#worker?.pulse?.()) ?? true
  }

  get prefetchDepth(): number {
    return this.#worker?.prefetchDepth ?? 0
  }

  get prepare(): Prepare | undefined {
    return this.#worker?.prepare
  }

  /** The memory of the Worker's process; null for a thread, which shares the server's memory. */
  async memoryBytes(): Promise<number | null> {
    const pid = this.#worker?.processId
    if (pid === undefined) return null
    // On Linux the second number is the count of resident pages. Other systems have no such file.
    const statm = await readFile(`/proc/${pid}/statm`, 'utf8').catch(() => null)
    return statm === null ? null : Number(statm.split(' ')[1]) * pageBytes
  }

  execute(batch: Batch): void {
    const worker = this.#worker
    if (this.#state !== 'READY' || worker === null) {
      this.#fail(batch.requests, this.#state === 'CLOSED' ? unloadedText : 'its worker is being restarted')
      batch.executed()
      return
    }
    const { length } = this.#batches
    assert(length === 0 || worker.prefetchDepth !== undefined, 'an instance executes one batch at a time')
    this.#batches.push(batch)
    for (const request of batch.requests) {
      this.#held.push(request)
      request.handOver(this)
    }
    if (length === 0) this.#watch(worker)
    worker.execute(batch, () => this.#onExecuted(batch))
  }

  onCancel(request: InferenceRequest): void {
    this.#worker?.cancel(request)
  }

  onFlowChange(request: InferenceRequest): void {
    this.#worker?.flowChanged?.(request)
  }

  async close(): Promise<void> {
    if (this.#state === 'CLOSED') return
    this.#state = 'CLOSED'
    this.#cancelWait?.()
    this.#cancelWait = null
    const worker = this.#worker
    this.#worker = null
    // A launch under way stops its own Worker when it sees that the instance is closed. Its failure does not matter.
    await Promise.allSettled([worker?.stop(), this.#launching])
    this.#dropBatches(unloadedText)
  }

  #launch(): Promise<void> {
    const launching = this.#start().finally(() => {
      this.#launching = null
    })
    this.#launching = launching
    return launching
  }

  async #start(): Promise<void> {
    let worker: Worker | null = null
    let deathReason: string | null = null
    let isWilling = true
    worker = await this.#options.launch({
      // A Worker may die between its launch and its installation here. Its death is handled once it is installed.
      onDeath: (reason) => {
        if (worker !== null && this.#worker === worker) this.#onDeath(reason)
        else deathReason = reason
      },
      onReadiness: (isReady) => {
        isWilling = isReady
        if (worker !== null && this.#worker === worker) this.#setWilling(isReady)
      },
    })
    await pinWorker(worker.processId, this.#options.cores)
    // The instance was closed during the launch, and nothing else refers to this Worker.
    if ((this.#state as State) === 'CLOSED') {
      await worker.stop()
      return
    }
    this.#worker = worker
    this.#isWilling = isWilling
    this.#readySinceNs = this.#clock.nowNs()
    this.#hasServed = false
    this.#state = 'READY'
    if (deathReason === null) this.#options.onReadinessChange()
    else this.#onDeath(deathReason)
  }

  #setWilling(isWilling: boolean): void {
    if (this.#isWilling === isWilling) return
    this.#isWilling = isWilling
    this.#log.warning(isWilling ? 'model says that it is ready again' : 'model says that it is not ready', {
      model: this.#options.modelName,
      instance: this.name,
    })
    this.#options.onReadinessChange()
  }

  #onExecuted(batch: Batch): void {
    // A death or a close has already ended the batch.
    if (this.#batches[0] !== batch) {
      assert(!this.#batches.includes(batch), 'batches execute in the order in which they came')
      return
    }
    this.#batches.shift()
    this.#hasServed = true
    this.#unwatch()
    if (this.#batches.length > 0 && this.#worker !== null) this.#watch(this.#worker)
    if (this.#options.watchesAnswers === true) this.#watchAnswers(batch)
    this.#forgetEnded()
    batch.executed()
  }

  /** Filters in place. Nearly always all requests have ended, or all but those of the parked batches. */
  #forgetEnded(): void {
    let kept = 0
    for (const request of this.#held) if (!request.isEnded && !request.isRescheduled) this.#held[kept++] = request
    this.#held.length = kept
  }

  /** The limit counts from the moment a batch is the first, so a parked batch does not pay for the ones before it. */
  #watch(worker: Worker): void {
    const { maxExecutionMs } = this.#options
    if (maxExecutionMs === 0) return
    this.#cancelWatchdog = this.#clock.after(maxExecutionMs * 1e6, () => this.#onOverrun(worker))
  }

  #watchAnswers({ requests }: Batch): void {
    const worker = this.#worker
    const { maxExecutionMs } = this.#options
    const owed = maxExecutionMs === 0 ? [] : requests.filter(({ isEnded, isRescheduled }) => !isEnded && !isRescheduled)
    if (owed.length === 0 || worker === null) return
    this.#clock.after(maxExecutionMs * 1e6, () => {
      if (this.#worker === worker && owed.some(({ isEnded }) => !isEnded)) this.#onOverrun(worker)
    })
  }

  #unwatch(): void {
    this.#cancelWatchdog?.()
    this.#cancelWatchdog = null
  }

  #onOverrun(worker: Worker): void {
    const limit = this.#options.maxExecutionMs
    this.#log.error('execution took too long, the worker is ended', { instance: this.name, max_execution_ms: limit })
    if (this.#worker === worker) {
      this.#onDeath(`${overdueStart} longer than max_execution_ms (${limit})`)
      worker.kill()
    }
  }

  #onDeath(reason: string): void {
    if (this.#state !== 'READY') return
    this.#worker = null
    const hasServed = this.#hasServed || this.#clock.nowNs() - this.#readySinceNs >= soundAfterMs * 1e6
    this.#failures = hasServed ? 0 : this.#failures + 1
    // The state changes first, because a failed request may bring the next request at once.
    this.#state = 'WAITING'
    this.#scheduleRestart(reason, true)
    this.#options.onReadinessChange()
    this.#dropBatches(reason)
  }

  /** Parked batches fail with the batch that executed, because the Worker may have begun them. */
  #dropBatches(reason: string): void {
    this.#unwatch()
    const held = this.#held
    this.#held = []
    const batches = this.#batches
    this.#batches = []
    this.#fail(held, reason)
    for (const batch of batches) batch.executed()
  }

  #fail(requests: Iterable<InferenceRequest>, reason: string): void {
    const triton = this.#options.tritonDeathText(reason)
    const facts = { triton, model: this.#options.modelName, instance: this.name, reason }
    // The same request would take too long again, so its client is not asked to repeat it.
    const isOverdue = reason.startsWith(overdueStart)
    for (const request of requests) {
      // One whose own run had failed before is the scheduler's already.
      if (request.isEnded || request.isRescheduled) continue
      // A request that ends Workers must not get another one.
      request.lend(null)
      request.fail(isOverdue ? ServerError.withoutStack('INTERNAL', triton) : worded('workerLost', facts))
    }
  }

  #scheduleRestart(reason: string, hadStarted: boolean): void {
    this.#restartCount++
    this.#lastError = reason
    const delayMs = restartDelayMs(this.#failures, hadStarted)
    this.#log.error('worker ended, it will be restarted', {
      model: this.#options.modelName,
      instance: this.name,
      reason,
      delay_ms: delayMs,
    })
    this.#cancelWait = this.#clock.after(delayMs * 1e6, () => {
      this.#cancelWait = null
      this.#state = 'STARTING'
      this.#launch().catch((failure: unknown) => {
        if (this.#state === 'CLOSED') return
        this.#state = 'WAITING'
        this.#failures++
        this.#scheduleRestart(messageOf(failure), false)
      })
    })
  }
}

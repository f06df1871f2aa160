// Threads that carry blocking calls of the C API away from the main thread.
// koffi's own asynchronous call was ruled out: it runs on libuv's four threads, which files and DNS need too
// (docs/internals/onnx-runtime.md).

import { Worker } from 'node:worker_threads'
import type { Cancel, Clock } from '../../../base/clock.ts'
import { RingQueue } from '../../../base/ring-queue.ts'
import { threadCpu, WorkerPulse } from '../../worker-pulse.ts'
import { addressOf } from './ort-library.ts'
import { carrierCalls, controlFields, createControl, type CarrierCall, type CarrierControl } from './carrier-control.ts'
import { carrierSource, type CarrierSetting } from './carrier-thread.ts'

type CarrierFunctions = Omit<CarrierSetting, keyof CarrierControl>

/** `status` is the result of the call; null when the thread was lost and the result is not known. */
type CarrierDone = (status: number | null, elapsedNs: number) => void

export class CarrierJob {
  readonly call: CarrierCall
  readonly parameters: readonly number[]
  /** Keeps the memory that the parameters point at alive until the job is done. */
  readonly kept: unknown
  readonly done: CarrierDone
  /** The cores on which the thread makes the call, as `coreMask`; null: all. */
  readonly mask: BigUint64Array | null
  constructor(
    call: CarrierCall,
    parameters: readonly number[],
    kept: unknown,
    done: CarrierDone,
    mask: BigUint64Array | null = null,
  ) {
    this.mask = mask
    this.call = call
    this.parameters = parameters
    this.kept = kept
    this.done = done
  }
}

/** A thread takes 6 MB of an idle server (bench/start.bench.ts) and 30 ms to come up. */
const retireAfterNs = 2e9

export class CarrierPool {
  readonly #clock: Clock
  readonly #functions: CarrierFunctions
  readonly #maxThreads: number
  readonly #carriers = new Set<Carrier>()
  readonly #idle: Carrier[] = []
  readonly #waiting = new RingQueue<CarrierJob>()
  #pulse: Promise<boolean> | null = null
  /** True once a model has run here and not only loaded: then threads are kept for the next run. */
  #hasRun = false
  #cancelRetirement: Cancel | null = null
  #isClosed = false

  /** Threads start on demand: one per call in progress, that is one per busy instance, up to `maxThreads`. */
  constructor(dependencies: { clock: Clock }, functions: CarrierFunctions, maxThreads: number) {
    this.#clock = dependencies.clock
    this.#functions = functions
    this.#maxThreads = maxThreads
  }

  /** Starts the first thread early, because a thread takes as long to start as the rest of the server. */
  warm(): void {
    const carrier = this.#carriers.size === 0 ? this.#spawn() : null
    if (carrier !== null) this.#idle.push(carrier)
  }

  get threadCount(): number {
    return this.#carriers.size
  }

  submit(job: CarrierJob): void {
    if (this.#isClosed) {
      queueMicrotask(() => job.done(null, 0))
      return
    }
    if (job.call === 'run' && !this.#hasRun) {
      this.#hasRun = true
      this.#cancelRetirement?.()
    }
    const carrier = this.#idle.pop() ?? this.#spawn()
    if (carrier === null) this.#waiting.push(job)
    else carrier.start(job)
  }

  /** Takes back a job that no thread has begun; false when it is too late. */
  withdraw(job: CarrierJob): boolean {
    return this.#waiting.remove(job)
  }

  /** False: a thread of the pool shows no sign of life. All Instances that share the pool may ask. */
  async pulse(): Promise<boolean> {
    this.#pulse ??= Promise.all([...this.#carriers].map((carrier) => this.#pulseOf(carrier))).then((signs) => {
      // All callers of this turn of the event loop get the same answer.
      setImmediate(() => (this.#pulse = null))
      return signs.every(Boolean)
    })
    return this.#pulse
  }

  #pulseOf(carrier: Carrier): Promise<boolean> {
    return carrier.beat(() => {
      const position = this.#idle.indexOf(carrier)
      // For a busy thread the end of its call is the sign of life; an idle thread gets a call that does nothing.
      if (position < 0) return
      this.#idle.splice(position, 1)
      carrier.start(new CarrierJob('nothing', [], null, () => undefined))
    })
  }

  /** Call it after the last call is over. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelRetirement?.()
    await Promise.all([...this.#carriers].map((carrier) => carrier.end()))
  }

  #spawn(): Carrier | null {
    if (this.#carriers.size >= this.#maxThreads || this.#isClosed) return null
    const carrier = new Carrier(
      this.#functions,
      () => this.#onFree(carrier),
      () => this.#onLost(carrier),
    )
    this.#carriers.add(carrier)
    return carrier
  }

  #onFree(carrier: Carrier): void {
    const next = this.#waiting.take()
    if (next === undefined) {
      this.#idle.push(carrier)
      this.#retireLater()
    } else carrier.start(next)
  }

  /** Ends threads that were needed only to load models. */
  #retireLater(): void {
    if (this.#hasRun || this.#isClosed) return
    this.#cancelRetirement?.()
    this.#cancelRetirement = this.#clock.after(retireAfterNs, () => {
      this.#cancelRetirement = null
      for (const carrier of this.#idle.splice(0)) {
        this.#carriers.delete(carrier)
        carrier.end().catch(() => undefined)
      }
    })
  }

  #onLost(carrier: Carrier): void {
    this.#carriers.delete(carrier)
    const position = this.#idle.indexOf(carrier)
    if (position >= 0) this.#idle.splice(position, 1)
    // A thread that has served no call could not start, and the next thread could not start either.
    if (!carrier.hasServed) {
      for (let job = this.#waiting.take(); job !== undefined; job = this.#waiting.take()) job.done(null, 0)
    }
    if (this.#waiting.size === 0) return
    const replacement = this.#spawn()
    const next = replacement === null ? undefined : this.#waiting.take()
    if (replacement !== null && next !== undefined) replacement.start(next)
  }
}

class Carrier {
  readonly #control = createControl()
  readonly #worker: Worker
  readonly #onFree: () => void
  #job: CarrierJob | null = null
  readonly #pulse = new WorkerPulse()
  hasServed = false

  constructor(setting: CarrierFunctions, onFree: () => void, onLost: () => void) {
    this.#onFree = onFree
    const workerData: CarrierSetting = { ...this.#control, ...setting }
    this.#worker = new Worker(carrierSource(), { eval: true, workerData, name: 'onnx-carrier' })
    this.#worker.on('message', () => this.#onMessage())
    this.#worker.on('error', () => undefined) // `exit` follows, and says the same.
    this.#worker.on('exit', () => {
      const job = this.#job
      this.#job = null
      onLost()
      job?.done(null, 0)
    })
    // An idle thread must not keep the process alive; a busy one does.
    this.#worker.unref()
  }

  start(job: CarrierJob): void {
    this.#job = job
    this.#worker.ref()
    const { slots } = this.#control
    slots[controlFields.call] = carrierCalls[job.call]
    for (let i = 0; i < job.parameters.length; i++) slots[controlFields.first + i] = job.parameters[i] as number
    slots[controlFields.mask] = job.mask === null ? 0 : addressOf(job.mask)
    this.#raise()
  }

  beat(send: () => void): Promise<boolean> {
    return this.#pulse.beat(send, async () => this.#pulse.hasMoved(await threadCpu(this.#worker)))
  }

  async end(): Promise<void> {
    const exited = new Promise<void>((resolve) => void this.#worker.once('exit', () => resolve()))
    this.#worker.ref()
    this.#control.slots[controlFields.call] = carrierCalls.end
    this.#raise()
    await exited
  }

  #raise(): void {
    Atomics.add(this.#control.ticket, 0, 1)
    Atomics.notify(this.#control.ticket, 0)
  }

  #onMessage(): void {
    const job = this.#job
    if (job === null) return
    this.#job = null
    this.#pulse.answered()
    this.hasServed = true
    this.#worker.unref()
    const { slots } = this.#control
    const status = slots[controlFields.status] as number
    const elapsedNs = slots[controlFields.elapsedNs] as number
    // The thread gets its next call before the result of this call is used.
    this.#onFree()
    job.done(status, elapsedNs)
  }
}

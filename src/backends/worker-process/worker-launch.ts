// Starts a worker and brings it to the point where it can execute: hello, perhaps complete a configuration, initialise.

import type { Log } from '../../base/log.ts'
import { notStarted } from '../../base/not-started.ts'
import { ServerError } from '../../base/server-error.ts'
import { emptyFrame, fromWorker, readText, readUint64, textFrame, toWorker } from './frames.ts'
import { writeLogFrame } from './log-frame.ts'
import type { LinkedProcess, ProcessEvents } from './worker-process.ts'
import { TensorRegions, type SharedMemoryLimits } from './tensor-regions.ts'

type WorkerGreeting = { readonly pid: number; readonly executable: string; readonly python: string }

export type StartFailure = {
  readonly message: string
  readonly missing?: string
  readonly executable?: string
  /** The place of an ErrorCode in `errorCodes`. */
  readonly code?: number
}
type Pending = {
  readonly awaits: number
  readonly resolve: (frame: Buffer) => void
  readonly reject: (reason: ServerError) => void
}

type WorkerOwner = {
  onFrame(frame: Buffer): void
  onExit(reason: string): void
}

type LaunchSettings = {
  /** What is started, for errors. */
  readonly executable: string
  /** Starts the process, or joins one. */
  open(regions: TensorRegions | null, events: ProcessEvents): LinkedProcess
  readonly memory: SharedMemoryLimits | null
  /** The name of the model in the log. */
  readonly modelName: string
  readonly words: WorkerWords
}

/** What a user reads about a process that does not start. */
export type WorkerWords = {
  /** `Python process` */
  readonly noun: string
  missing(executable: string): string
  failure(failure: StartFailure): ServerError
}

/** A process with its memory, before and while it serves. */
export class WorkerLink {
  readonly regions: TensorRegions | null
  readonly #process: LinkedProcess
  readonly #settings: LaunchSettings
  readonly #log: Log
  greeting: WorkerGreeting | null = null
  #owner: WorkerOwner | null = null
  #pending: Pending | null = null
  #exitReason: string | null = null
  #endedWords: ((reason: string) => string) | null = null
  /** The callers of `gone` that wait. */
  readonly #onGone: (() => void)[] = []

  constructor(log: Log, settings: LaunchSettings) {
    this.#settings = settings
    this.#log = log
    this.regions = settings.memory === null ? null : TensorRegions.create(settings.memory)
    const model = settings.modelName
    this.#process = settings.open(this.regions, {
      onFrame: (frame) => this.#onFrame(frame),
      onLine: (line, stream) => log.info(line, { model, stream }),
      onExit: (reason) => this.#onExit(reason),
    })
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  get isGone(): boolean {
    return this.#exitReason !== null
  }

  /** From now on `owner` gets the frames, and is told of the end of the process. */
  adopt(owner: WorkerOwner): void {
    this.#owner = owner
    if (this.#exitReason !== null) owner.onExit(this.#exitReason)
  }

  send(frame: Buffer): void {
    this.#process.send(frame)
  }

  sendSoon(frame: Buffer): void {
    this.#process.sendSoon(frame)
  }

  leaving(): void {
    this.#process.leaving?.()
  }

  /** Lets the instance end by itself. A process that others use goes on. */
  dismiss(): void {
    this.leaving()
    this.send(emptyFrame(toWorker.finalize))
  }

  kill(): void {
    this.#process.kill()
  }

  /** Resolves when the process is gone. */
  gone(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#exitReason === null) this.#onGone.push(resolve)
      else resolve()
    })
  }

  /** Sends a start-up frame and waits for its answer. Rejects with the model's error, or when the process ends. */
  ask(kind: number, awaits: number, body: unknown): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (this.#exitReason !== null) {
        reject(this.#startError(this.#exitReason))
        return
      }
      this.#pending = { awaits, resolve, reject }
      this.send(textFrame(kind, 0, JSON.stringify(body)))
    })
  }

  async completeConfig(body: unknown): Promise<unknown> {
    return JSON.parse(readText(await this.ask(toWorker.completeConfig, fromWorker.configCompleted, body)))
  }

  /** `endedWords`: the error of a process that ends meanwhile, where it is not the usual one. */
  async initialize(body: unknown, endedWords: ((reason: string) => string) | null = null): Promise<void> {
    this.#endedWords = endedWords
    await this.ask(toWorker.initialize, fromWorker.initialized, body)
  }

  #onFrame(frame: Buffer): void {
    const kind = frame.readUInt16LE(4)
    const pending = this.#pending
    if (pending !== null && kind === pending.awaits) {
      this.#pending = null
      pending.resolve(frame)
    } else if (kind === fromWorker.hello) {
      this.greeting = JSON.parse(readText(frame)) as WorkerGreeting
    } else if (kind === fromWorker.startFailed) {
      this.#pending = null
      pending?.reject(this.#settings.words.failure(JSON.parse(readText(frame)) as StartFailure))
    } else if (this.#owner !== null) {
      this.#owner.onFrame(frame)
    } else if (kind === fromWorker.log) {
      writeLogFrame(this.#log, frame)
    } else if (kind === fromWorker.call) {
      // Nobody answers a question of a model that completes its configuration, and it would wait for good.
      const error = 'metrics and model control are not there before the model is initialized'
      this.send(textFrame(toWorker.reply, readUint64(frame, 8), JSON.stringify({ result: null, error })))
    }
  }

  #onExit(reason: string): void {
    this.#exitReason = reason
    this.regions?.close()
    const pending = this.#pending
    this.#pending = null
    pending?.reject(this.#startError(reason))
    this.#owner?.onExit(reason)
    for (const tell of this.#onGone) tell()
  }

  #startError(reason: string): ServerError {
    const { executable } = this.#settings
    const failure = this.#process.spawnFailure
    if (failure?.code === 'ENOENT') {
      return new ServerError('INTERNAL', this.#settings.words.missing(executable))
    }
    if (failure !== null) return new ServerError('INTERNAL', notStarted(executable, reason))
    const { words, modelName } = this.#settings
    const text =
      this.#endedWords?.(reason) ?? `the ${words.noun} of model '${modelName}' ended while starting: ${reason}`
    return new ServerError('INTERNAL', text)
  }
}

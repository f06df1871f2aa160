// The server's side of a Worker that runs TypeScript: sends requests, receives answers, reports why a Worker ended.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { NumberTable } from '../../base/number-table.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { Batch } from '../../model/batch.ts'
import type { CustomMetrics } from '../../model/custom-metrics.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { Worker, WorkerEvents } from '../supervised-instance.ts'
import { WorkerPulse } from '../worker-pulse.ts'
import type { ModelDescription } from './model-description.ts'
import { openProcess } from './process-channel.ts'
import { takenAtBytes, takenAtResponses } from './response-window.ts'
import { packRequests, unpackTensors } from './tensor-packing.ts'
import { openThread } from './thread-channel.ts'
import type { OpenChannel, WorkerChannel, WorkerLimits } from './worker-channel.ts'
import { WorkerMetrics } from './worker-metrics.ts'
import type { FromWorker, RescheduleMessage, ResponseMessage, WorkerMessage, WorkerTask } from './worker-protocol.ts'

/** How long a Worker may take to finalize and leave before it is ended by force. */
const finishGraceMs = 10_000

/** Without `metrics` the custom metrics of models are not shown. */
export type ScriptDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly metrics?: CustomMetrics | null
  /** Of workers that are processes. */
  readonly environment?: NodeJS.ProcessEnv
  /** For instances that share a Worker. Those with a process or a limit of memory of their own do not. */
  readonly openShared?: OpenChannel
}

function channelOf({ openShared }: ScriptDependencies, task: WorkerTask, limits: WorkerLimits): OpenChannel {
  if (limits.isolation === 'process') return openProcess
  return openShared !== undefined && task.purpose === 'serve' && limits.maxMemoryMb === 0 ? openShared : openThread
}

export class ScriptWorker implements Worker {
  readonly #clock: Clock
  readonly #log: Log
  readonly #metrics: WorkerMetrics | null
  readonly #task: WorkerTask
  readonly #events: WorkerEvents
  readonly #channel: WorkerChannel
  readonly #open = new NumberTable<InferenceRequest>()
  /** For a decoupled model: responses that were passed on and not yet confirmed to the model. */
  readonly #taken = new Map<number, { count: number; bytes: number }>()
  readonly #outcome = Promise.withResolvers<ModelDescription | null>()
  readonly #gone = Promise.withResolvers<void>()
  readonly #pulse = new WorkerPulse()
  #executed: (() => void) | null = null
  #nextKey = 1
  #isStarted = false

  private constructor(dependencies: ScriptDependencies, task: WorkerTask, limits: WorkerLimits, events: WorkerEvents) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log
    const { metrics = null } = dependencies
    this.#metrics = metrics === null ? null : new WorkerMetrics(metrics, dependencies.log)
    this.#task = task
    this.#events = events
    const open = channelOf(dependencies, task, limits)
    this.#channel = open(
      task,
      limits,
      {
        onMessage: (envelope) => this.#onEnvelope(envelope),
        onLine: (line, isError) => this.#onLine(line, isError),
        onExit: (reason) => this.#onExit(reason),
      },
      dependencies.environment,
    )
  }

  /** Resolves when the model is initialised; rejects with a ServerError when that failed. */
  static async launch(
    dependencies: ScriptDependencies,
    task: WorkerTask,
    limits: WorkerLimits,
    events: WorkerEvents,
  ): Promise<ScriptWorker> {
    const worker = new ScriptWorker(dependencies, task, limits, events)
    await worker.#startedWithin(limits.maxInitializeMs)
    worker.#isStarted = true
    return worker
  }

  /** Asks the code for its description, in a Worker that ends with the answer. */
  static async describe(
    dependencies: ScriptDependencies,
    task: WorkerTask,
    limits: WorkerLimits,
  ): Promise<ModelDescription | null> {
    const worker = new ScriptWorker(dependencies, task, limits, { onDeath: () => undefined })
    const description = await worker.#startedWithin(limits.maxInitializeMs)
    worker.kill()
    await worker.#gone.promise
    return description
  }

  execute(batch: Batch, executed: () => void): void {
    const startNs = batch.startNs(this.#clock)
    for (const request of batch.requests) request.computeStartNs = startNs
    this.#executed = executed
    try {
      const message = packRequests(batch.requests, (request) => this.#hold(request))
      this.#channel.post({ kind: 'execute', ...message }, message.buffers)
    } catch (reason) {
      // The likely reason is a lack of memory for the copy. The Worker is not affected.
      for (const [key, request] of this.#open.entries()) if (batch.requests.includes(request)) this.#release(key)
      const error = new ServerError('INTERNAL', `model '${this.#task.place.modelName}': ${messageOf(reason)}`)
      for (const request of batch.requests) request.fail(error)
      this.#finishExecution()
      return
    }
    const sentNs = this.#clock.nowNs()
    for (const request of batch.requests) request.computeInputEndNs = sentNs
  }

  get processId(): number | undefined {
    return this.#channel.processId
  }

  cancel(request: InferenceRequest): void {
    const key = this.#keyOf(request)
    if (key !== undefined) this.#channel.post({ kind: 'cancel', key }, [])
  }

  flowChanged(request: InferenceRequest): void {
    const key = this.#keyOf(request)
    if (key !== undefined && !request.isPaused) this.#tellTaken(key)
  }

  /** A Worker that executes JavaScript does not answer messages, but it uses the CPU. */
  pulse(): Promise<boolean> {
    return this.#pulse.beat(
      () => this.#channel.post({ kind: 'ping' }, []),
      async () => this.#pulse.hasMoved(await this.#channel.cpuUsage()),
    )
  }

  async stop(): Promise<void> {
    this.#channel.post({ kind: 'finish' }, [])
    const cancelGrace = this.#clock.after(finishGraceMs * 1e6, () => {
      this.#log.warning('worker did not finish in time, it is ended', { instance: this.#task.place.modelInstanceName })
      this.kill()
    })
    await this.#gone.promise
    cancelGrace()
  }

  kill(): void {
    this.#channel.terminate().catch((reason: unknown) => {
      this.#log.error('worker could not be ended', { reason: messageOf(reason) })
    })
  }

  async #startedWithin(limitMs: number): Promise<ModelDescription | null> {
    const { modelName, modelInstanceName } = this.#task.place
    const cancelLimit =
      limitMs === 0
        ? null
        : this.#clock.after(limitMs * 1e6, () => {
            this.#refuse('INTERNAL', `it was not initialised within max_initialize_ms (${limitMs})`)
          })
    try {
      return await this.#outcome.promise
    } catch (reason) {
      this.kill()
      await this.#gone.promise
      throw ServerError.from(reason, `failed to initialize model '${modelName}' (${modelInstanceName}): `)
    } finally {
      cancelLimit?.()
    }
  }

  #refuse(code: ServerError['code'], message: string): void {
    this.#outcome.reject(new ServerError(code, message))
  }

  #onEnvelope(envelope: FromWorker): void {
    const nowNs = this.#clock.nowNs()
    for (const message of envelope.messages) {
      if (message.kind === 'response') this.#onResponse(message, envelope.buffers, nowNs)
      else if (message.kind === 'reschedule') this.#onReschedule(message, envelope.buffers, nowNs)
      else this.#onNotice(message)
    }
  }

  // HOT: once per response. 1 view per output, 0 copies.
  #onResponse(message: ResponseMessage, buffers: readonly ArrayBuffer[], nowNs: number): void {
    const request = this.#open.get(message.key)
    if (request === undefined) return
    if (message.isFinal) this.#release(message.key)
    request.computeOutputStartNs = nowNs
    request.computeEndNs = nowNs
    const { error, isFinal, parameters } = message
    if (error !== null) {
      // The model knows which request it refuses, so this request need not run again to find out.
      if (error.isOwn && isFinal) request.lend(null)
      request.respond(InferenceResponse.failure(ServerError.withoutStack(error.code, error.message), isFinal))
    } else if (message.isFlagOnly) {
      request.respond(InferenceResponse.finalFlag())
    } else {
      request.respond(InferenceResponse.of(unpackTensors(message.outputs, buffers), { parameters, isFinal }))
    }
    if (!isFinal) this.#countTaken(message, request)
  }

  #onReschedule({ key, outputs }: RescheduleMessage, buffers: readonly ArrayBuffer[], nowNs: number): void {
    const request = this.#open.get(key)
    if (request === undefined) return
    this.#release(key)
    request.computeOutputStartNs = nowNs
    request.computeEndNs = nowNs
    request.reschedule(unpackTensors(outputs, buffers))
  }

  /** Call it after the response was passed on, because its reader may have paused the request by then. */
  #countTaken(message: ResponseMessage, request: InferenceRequest): void {
    const taken = this.#taken.get(message.key) ?? { count: 0, bytes: 0 }
    taken.count++
    for (const { length } of message.outputs) taken.bytes += length
    this.#taken.set(message.key, taken)
    const isWorthTelling = taken.count >= takenAtResponses || taken.bytes >= takenAtBytes
    if (isWorthTelling && !request.isPaused) this.#tellTaken(message.key)
  }

  #tellTaken(key: number): void {
    const taken = this.#taken.get(key)
    if (taken === undefined) return
    this.#taken.delete(key)
    this.#channel.post({ kind: 'taken', key, ...taken }, [])
  }

  #onNotice(message: Exclude<WorkerMessage, ResponseMessage | RescheduleMessage>): void {
    switch (message.kind) {
      case 'executed':
        this.#finishExecution()
        break
      case 'pong':
        this.#pulse.answered()
        break
      case 'started':
        this.#outcome.resolve(null)
        break
      case 'described':
        this.#outcome.resolve(message.description)
        break
      case 'refused':
        this.#refuse(message.code, message.message)
        break
      case 'metric':
      case 'measured':
        this.#metrics?.take(message)
        break
      case 'readiness':
        this.#events.onReadiness?.(message.isReady)
        break
      case 'log':
        this.#log[message.level](message.message, { ...message.fields, ...this.#facts })
        break
    }
  }

  #onLine(line: string, isError: boolean): void {
    if (isError) this.#log.warning(line, this.#facts)
    else this.#log.info(line, this.#facts)
  }

  get #facts(): { model: string; instance: string } {
    return { model: this.#task.place.modelName, instance: this.#task.place.modelInstanceName }
  }

  #onExit(reason: string): void {
    this.#refuse('INTERNAL', reason)
    this.#metrics?.close()
    this.#open.clear()
    this.#taken.clear()
    this.#executed = null
    this.#gone.resolve()
    if (this.#isStarted) this.#events.onDeath(reason)
  }

  #finishExecution(): void {
    const executed = this.#executed
    this.#executed = null
    executed?.()
  }

  #hold(request: InferenceRequest): number {
    const key = this.#nextKey++
    this.#open.set(key, request)
    return key
  }

  /** A linear search is enough: this is rare, and few requests are open. */
  #keyOf(request: InferenceRequest): number | undefined {
    return this.#open.entries().find(([, open]) => open === request)?.[0]
  }

  #release(key: number): void {
    this.#taken.delete(key)
    this.#open.delete(key)
  }
}

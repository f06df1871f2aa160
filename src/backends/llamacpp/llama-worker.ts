// The server's side of the process that computes a GGUF model: sends requests, passes answers on, reports why a process ended.
// The process computes many requests at the same time, so a batch counts as executed as soon as there is room for the next one.

import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { NumberTable } from '../../base/number-table.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { readLanguageRequest, type LanguageRequest } from '../../llm/language-request.ts'
import type { Batch } from '../../model/batch.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import type { LanguageMetrics } from '../language-metrics.ts'
import { forkProcess, type ForkedProcess } from '../forked-process.ts'
import type { Worker, WorkerEvents } from '../supervised-instance.ts'
import { firstThreadMs, WorkerPulse } from '../worker-pulse.ts'
import { answerOutputs } from './answer-outputs.ts'
import { engineOrder } from './engine-order.ts'
import { EngineWatch } from './engine-watch.ts'
import type {
  EngineFigures,
  EngineMessage,
  EngineTask,
  FromEngine,
  GenerationEnd,
  ToEngine,
} from './engine-protocol.ts'
import { marksOf, PromptMarks } from './prompt-marks.ts'

const entry = fileURLToPath(new URL(`./engine/engine-program${path.extname(import.meta.url)}`, import.meta.url))

/** Large models take minutes to read. */
const startLimitMs = 30 * 60_000
const finishGraceMs = 10_000

type LlamaDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly environment: NodeJS.ProcessEnv
  readonly metrics: LanguageMetrics
}
type WorkerPlace = { readonly task: EngineTask; readonly modelName: string; readonly instanceName: string }
type Held = { readonly request: InferenceRequest; readonly asked: LanguageRequest }

/** llama.cpp and ggml write one such line before they abort. */
const tellsWhy = /error|assert|abort|fail/i
const lastWordsLength = 300
const lastWordsAgeNs = 2e9

export class LlamaWorker implements Worker {
  readonly #clock: Clock
  readonly #log: Log
  readonly #metrics: LanguageMetrics
  readonly #place: WorkerPlace
  readonly #events: WorkerEvents
  readonly #process: ForkedProcess<ToEngine | EngineTask>
  readonly #open = new NumberTable<Held>()
  readonly #started = Promise.withResolvers<void>()
  readonly #gone = Promise.withResolvers<void>()
  readonly #pulse = new WorkerPulse()
  readonly #watch: EngineWatch
  /** Tells that the last batch is executed; null while there is room for more. */
  #executed: (() => void) | null = null
  #openCount = 0
  readonly #marks = new PromptMarks()
  /** What the library said before it ended its process. */
  #lastWords = ''
  #lastWordsNs = 0
  #nextKey = 1
  #isStarted = false

  private constructor(dependencies: LlamaDependencies, place: WorkerPlace, events: WorkerEvents) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log
    this.#metrics = dependencies.metrics
    this.#place = place
    this.#events = events
    this.#watch = new EngineWatch(dependencies.clock, {
      ask: () => this.#process.post({ kind: 'ping' }),
      threadMs: async () => (this.processId === undefined ? null : firstThreadMs(this.processId)),
      hangs: () => this.#endHung(),
    })
    const options = { environment: dependencies.environment, nodeOptions: [] }
    this.#process = forkProcess<ToEngine | EngineTask, FromEngine>(entry, options, {
      onMessage: (messages) => this.#onMessages(messages),
      onLine: (line) => this.#onLine(line),
      onExit: (reason) => this.#onExit(reason),
    })
    this.#process.post(place.task)
  }

  /** Resolves when the model is in memory; rejects with a ServerError when that failed. */
  static async launch(dependencies: LlamaDependencies, place: WorkerPlace, events: WorkerEvents): Promise<LlamaWorker> {
    const worker = new LlamaWorker(dependencies, place, events)
    const cancelLimit = dependencies.clock.after(startLimitMs * 1e6, () => {
      worker.#started.reject(new ServerError('UNAVAILABLE', `it was not in memory within ${startLimitMs / 1000} s`))
    })
    try {
      await worker.#started.promise
    } catch (reason) {
      worker.kill()
      await worker.#gone.promise
      throw ServerError.from(reason, `failed to load model '${place.modelName}' (${place.instanceName}): `)
    } finally {
      cancelLimit()
    }
    worker.#isStarted = true
    return worker
  }

  get processId(): number | undefined {
    return this.#process.processId
  }

  /** A prompt whose beginning is in memory may find half of the slots taken and is still computed sooner here. */
  burden(request: InferenceRequest): number {
    return this.#openCount / this.#place.task.settings.slots - this.#marks.knownShare(promptMarks(request)) / 2
  }

  execute(batch: Batch, executed: () => void): void {
    const startNs = batch.startNs(this.#clock)
    for (const request of batch.requests) {
      request.computeStartNs = startNs
      request.computeInputEndNs = startNs
      this.#begin(request)
    }
    const { slots, waiting } = this.#place.task.settings
    if (this.#openCount < slots + waiting) executed()
    else this.#executed = executed
  }

  cancel(request: InferenceRequest): void {
    const key = this.#keyOf(request)
    if (key !== undefined) this.#process.post({ kind: 'cancel', key })
  }

  flowChanged(request: InferenceRequest): void {
    const key = this.#keyOf(request)
    if (key !== undefined) this.#process.post({ kind: 'flow', key, isPaused: request.isPaused })
  }

  pulse(): Promise<boolean> {
    return this.#pulse.beat(
      () => this.#process.post({ kind: 'ping' }),
      async () => this.#pulse.hasMoved(await this.#process.cpuUsage()),
    )
  }

  async stop(): Promise<void> {
    this.#process.post({ kind: 'finish' })
    const cancelGrace = this.#clock.after(finishGraceMs * 1e6, () => this.kill())
    await this.#gone.promise
    cancelGrace()
  }

  kill(): void {
    this.#process.terminate().catch((reason: unknown) => {
      this.#log.error('worker could not be ended', { reason: messageOf(reason) })
    })
  }

  #endHung(): void {
    this.#lastWords =
      'it computed on without an answer: a grammar or a JSON schema of a request can go on in too many ways'
    this.#lastWordsNs = this.#clock.nowNs()
    this.kill()
  }

  #begin(request: InferenceRequest): void {
    try {
      const asked = readLanguageRequest(request)
      const key = this.#nextKey++
      const waitedMs = request.receivedNs === 0 ? 0 : (this.#clock.nowNs() - request.receivedNs) / 1e6
      const order = engineOrder(key, asked, { priority: request.priority, waitedMs })
      this.#marks.note(marksByRequest.get(request) ?? [])
      this.#open.set(key, { request, asked })
      this.#openCount++
      this.#process.post(order)
      this.#watch.start()
    } catch (reason) {
      request.fail(ServerError.from(reason))
    }
  }

  #onMessages(messages: FromEngine): void {
    const nowNs = this.#clock.nowNs()
    for (const message of messages) {
      if ('key' in message) this.#onAnswer(message, nowNs)
      else this.#onNotice(message)
    }
  }

  #onAnswer(message: Extract<EngineMessage, { key: number }>, nowNs: number): void {
    const held = this.#open.get(message.key)
    if (held === undefined) return
    const { request, asked } = held
    const isFinal = message.kind !== 'text' || message.end !== null
    if (isFinal) this.#release(message.key)
    if (message.kind === 'text' && message.end !== null) this.#noteEnd(request, message.end, nowNs)
    else request.computeOutputStartNs = nowNs
    request.computeEndNs = nowNs
    if (message.kind === 'failed') {
      const isCancel = message.code === 'CANCELLED' && request.isCancelled
      if (isCancel) request.failCancelled()
      else request.fail(ServerError.withoutStack(message.code, message.message))
    } else if (message.kind === 'text' && message.end?.reason === 'cancelled' && request.isCancelled)
      request.failCancelled()
    else {
      const outputs = this.#outputsFor(request, answerOutputs(message, asked))
      // The account of the caller counts tokens by this parameter: those of the prompt and those of the answer.
      const tokens = tokensIn(message)
      const parameters = tokens === 0 ? null : new Map([['tokens', BigInt(tokens)]])
      request.respond(InferenceResponse.of(outputs, { parameters, isFinal }))
    }
  }

  #noteEnd(request: InferenceRequest, end: GenerationEnd, nowNs: number): void {
    this.#metrics.note('ended', 1, end.reason)
    this.#metrics.note('promptTokens', end.inputTokens)
    // What the request waited in the engine for a slot belongs to its queue.
    const firstNs = Math.round(nowNs - end.answerMs * 1e6)
    request.computeStartNs = Math.max(request.computeStartNs, Math.round(firstNs - end.promptMs * 1e6))
    request.computeInputEndNs = Math.max(request.computeStartNs, firstNs)
    request.computeOutputStartNs = nowNs
    request.isGeneration = true
    if (request.receivedNs > 0) this.#metrics.note('request', (nowNs - request.receivedNs) / 1e9)
  }

  #outputsFor({ requestedOutputs }: InferenceRequest, outputs: readonly Tensor[]): readonly Tensor[] {
    return requestedOutputs.length === 0 ? outputs : outputs.filter(({ name }) => requestedOutputs.includes(name))
  }

  #onNotice(message: Exclude<EngineMessage, { key: number }>): void {
    switch (message.kind) {
      case 'started':
        this.#started.resolve()
        break
      case 'refused':
        this.#started.reject(new ServerError(message.code, message.message))
        break
      case 'pong':
        this.#pulse.answered()
        this.#watch.answered()
        break
      case 'log':
        this.#log[message.level](message.message, this.#facts)
        break
      case 'figures':
        noteFigures(this.#metrics, message.figures)
        break
    }
  }

  get #facts(): { model: string; instance: string } {
    return { model: this.#place.modelName, instance: this.#place.instanceName }
  }

  #onLine(line: string): void {
    this.#log.verbose(line, this.#facts)
    // The lines that follow the first one say where it happened.
    if (!tellsWhy.test(line) || this.#hasLastWords) return
    this.#lastWords = line.trim().slice(0, lastWordsLength)
    this.#lastWordsNs = this.#clock.nowNs()
  }

  /** What was said long before the end has nothing to do with it. */
  get #hasLastWords(): boolean {
    return this.#lastWords !== '' && this.#clock.nowNs() - this.#lastWordsNs < lastWordsAgeNs
  }

  #onExit(ending: string): void {
    const reason = this.#hasLastWords ? `${ending} (${this.#lastWords})` : ending
    this.#started.reject(new ServerError('INTERNAL', reason))
    this.#metrics.close()
    this.#watch.stop()
    this.#open.clear()
    this.#openCount = 0
    this.#executed = null
    this.#gone.resolve()
    if (this.#isStarted) this.#events.onDeath(reason)
  }

  #keyOf(request: InferenceRequest): number | undefined {
    return this.#open.entries().find(([, held]) => held.request === request)?.[0]
  }

  #release(key: number): void {
    this.#open.delete(key)
    this.#openCount--
    if (this.#openCount === 0) this.#watch.stop()
    const executed = this.#executed
    this.#executed = null
    executed?.()
  }
}

/** Of requests that one of several instances gets: all of them ask for the same marks. Nobody asks a sole instance. */
const marksByRequest = new WeakMap<InferenceRequest, readonly number[]>()

function promptMarks(request: InferenceRequest): readonly number[] {
  const known = marksByRequest.get(request)
  if (known !== undefined) return known
  // Behind the four bytes of its length is the text.
  const text = request.inputs.find(({ name }) => name === 'text_input')?.bytes.subarray(4)
  const marks = text === undefined ? [] : marksOf(text)
  marksByRequest.set(request, marks)
  return marks
}

function noteFigures(metrics: LanguageMetrics, figures: EngineFigures): void {
  for (const ms of figures.firstTokenMs) metrics.note('firstToken', ms / 1000)
  for (const ms of figures.interTokenMs) metrics.note('nextToken', ms / 1000)
  metrics.note('generatedTokens', figures.generatedTokens)
  metrics.note('hitTokens', figures.cachedTokens)
  metrics.note('lookedTokens', figures.promptTokensAsked)
  metrics.note('preemptions', figures.preemptions)
  metrics.note('steps', figures.steps)
  metrics.note('running', figures.running)
  metrics.note('waiting', figures.waiting)
  metrics.note('cells', figures.cells)
  metrics.note('usedCells', figures.usedCells)
  metrics.note('cellUse', figures.cells === 0 ? 0 : figures.usedCells / figures.cells)
}

function tokensIn(message: EngineMessage): number {
  if (message.kind === 'vectors') return message.inputTokens
  return message.kind === 'text' && message.end !== null ? message.end.inputTokens + message.end.outputTokens : 0
}

// Galatea without a network: loads a repository and infers in the caller's own process, no port open.

import { openOrClose } from './base/closing-stack.ts'
import { SystemClock, type Clock } from './base/clock.ts'
import { silentLog, type Log } from './base/log.ts'
import { requireNode } from './base/require-node.ts'
import { ServerError } from './base/server-error.ts'
import {
  EmbeddedExchange,
  type EmbeddedAnswers,
  type InferOptions,
  type InferResult,
  type InputValues,
} from './embedded-exchange.ts'
import { SharedMemoryRegistry } from './engine/shared-memory/shared-memory-registry.ts'
import type { Engine } from './engine/engine.ts'
import type { IndexEntry } from './engine/serving/index-entry.ts'
import type { ModelMetadata } from './config/model-metadata.ts'
import { defaultOptions } from './options/options-from-flags.ts'
import type { EngineSettings } from './options/server-options.ts'
import { buildEngine } from './build-engine.ts'

export type EmbeddedEngineOptions = Partial<Omit<EngineSettings, 'modelRepositories'>> & {
  readonly modelRepository: string | readonly string[]
  readonly clock?: Clock
  readonly log?: Log
}

export interface EmbeddedEngine {
  /** One answer. Of a decoupled model that sends several, use `inferStream`. */
  infer(model: string, inputs: Readonly<Record<string, InputValues>>, options?: InferOptions): Promise<InferResult>
  /** Every answer as it comes. Leaving the loop early cancels the request. */
  inferStream(
    model: string,
    inputs: Readonly<Record<string, InputValues>>,
    options?: InferOptions,
  ): AsyncIterableIterator<InferResult>
  isModelReady(model: string, version?: string): boolean
  metadata(model: string, version?: string): ModelMetadata
  index(): readonly IndexEntry[]
  load(model: string): Promise<void>
  unload(model: string): Promise<void>
  close(): Promise<void>
  /** The Engine itself, for those who want tensors without conversions. */
  readonly engine: Engine
}

/** Loads every model of the repository; one that cannot load is UNAVAILABLE in `index()` and hurts no other. */
export async function createEngine(options: EmbeddedEngineOptions): Promise<EmbeddedEngine> {
  requireNode()
  const { modelRepository, clock = new SystemClock(), log = silentLog, ...rest } = options
  const modelRepositories = typeof modelRepository === 'string' ? [modelRepository] : modelRepository
  // Nobody but the process itself calls: the process may run what it likes anyway.
  const settings = { ...defaultOptions().engine, allowsModelUploads: true, ...rest, modelRepositories }
  const engine = await openOrClose(async (closing) => {
    const built = await buildEngine({ clock, log }, settings, closing)
    await closing.add(built.engine, (opened) => opened.close(0)).start()
    return built.engine
  })

  const parts = { engine, clock, sharedMemory: new SharedMemoryRegistry({ isAllowed: false }) }
  return {
    engine,
    infer: (model, inputs, inferOptions = {}) =>
      new Promise((resolve, reject) => {
        const failed = (error: ServerError): void => reject(withReason(engine, model, error))
        const answers = { answered: resolve, failed, ended: () => undefined }
        new EmbeddedExchange(parts, inputs, inferOptions, true, answers).send(model)
      }),
    inferStream: async function* (model, inputs, inferOptions = {}) {
      const arrived = new ArrivedResults((error) => withReason(engine, model, error))
      const exchange = new EmbeddedExchange(parts, inputs, inferOptions, false, arrived)
      arrived.onFull = (isFull) => exchange.setPaused(isFull)
      exchange.send(model)
      try {
        for (;;) {
          const result = await arrived.next()
          if (result === null) return
          yield result
        }
      } finally {
        exchange.cancel()
      }
    },
    isModelReady: (model, version = '') => engine.isModelReady(model, version),
    metadata: (model, version = '') => engine.modelMetadata(model, version),
    index: () => engine.index(),
    load: async (model) => {
      await engine.load(model)
    },
    unload: async (model) => (await engine.unload(model)).gone,
    close: async () => {
      await engine.close()
    },
  }
}

/** The texts of Triton do not say why a model is not there; the owner of the process may know it. */
function withReason(engine: Engine, model: string, error: ServerError): ServerError {
  if (error.code !== 'NOT_FOUND' && error.code !== 'UNAVAILABLE') return error
  const failed = engine
    .index()
    .find(({ name, state, reason }) => name === model && state === 'UNAVAILABLE' && reason !== '')
  if (failed === undefined || error.message.includes(failed.reason)) return error
  return new ServerError(error.code, `${error.message}: ${failed.reason}`, { cause: error })
}

/** Results that wait to be taken at most; a model that can wait is asked to at more. */
const mostWaiting = 64

/** The results of a stream between the model that makes them and the loop that takes them. */
class ArrivedResults implements EmbeddedAnswers {
  /** Told when too many wait, and when they are taken. */
  onFull: (isFull: boolean) => void = () => undefined
  readonly #results: InferResult[] = []
  #error: ServerError | null = null
  #hasEnded = false
  #wake = (): void => undefined
  readonly #explain: (error: ServerError) => ServerError

  constructor(explain: (error: ServerError) => ServerError) {
    this.#explain = explain
  }

  answered(result: InferResult): void {
    this.#results.push(result)
    if (this.#results.length === mostWaiting) this.onFull(true)
    this.#wake()
  }

  failed(error: ServerError): void {
    this.#error = this.#explain(error)
    this.#wake()
  }

  ended(): void {
    this.#hasEnded = true
    this.#wake()
  }

  /** Null after the last. Throws the error that ended them. */
  async next(): Promise<InferResult | null> {
    for (;;) {
      const result = this.#results.shift()
      if (result !== undefined) {
        if (this.#results.length === 0) this.onFull(false)
        return result
      }
      if (this.#error !== null) throw this.#error
      if (this.#hasEnded) return null
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }
}

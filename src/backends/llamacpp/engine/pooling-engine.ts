// Computes one vector, or one score, for each text. A text is computed in one step, with as many others as fit beside it.

import { messageOf, ServerError } from '../../../base/server-error.ts'
import type { EngineMessage, EngineSettings, PoolOrder } from '../engine-protocol.ts'
import type { LlamaSession } from './llama-session.ts'
import { requireKnownTokens, requireTextLength } from './require-text-length.ts'

type PoolJob = {
  readonly order: PoolOrder
  readonly texts: readonly Int32Array[]
  readonly vectors: Float32Array[]
  /** Texts that are computed or being computed. */
  begun: number
  isCancelled: boolean
}

type PoolingDependencies = {
  readonly session: LlamaSession
  readonly post: (messages: readonly EngineMessage[]) => void
}

export class PoolingEngine {
  readonly #session: LlamaSession
  readonly #post: PoolingDependencies['post']
  readonly #settings: EngineSettings
  readonly #jobs: PoolJob[] = []
  readonly #cancelled = new Set<number>()
  #isRunning = false

  constructor({ session, post }: PoolingDependencies, settings: EngineSettings) {
    this.#session = session
    this.#post = post
    this.#settings = settings
  }

  async take(order: PoolOrder): Promise<void> {
    try {
      if (this.#scoresPairs && order.query === null) {
        throw ServerError.withoutStack('INVALID_ARG', "the model is for 'rerank', and the request asks for 'embed'")
      }
      const texts = await this.#tokenize(order)
      const isCancelled = this.#cancelled.delete(order.key)
      this.#jobs.push({ order, texts, vectors: [], begun: 0, isCancelled })
      void this.#run()
    } catch (reason) {
      this.#fail(order.key, reason)
    }
  }

  cancel(key: number): void {
    const job = this.#jobs.find(({ order }) => order.key === key)
    if (job === undefined) this.#cancelled.add(key)
    else job.isCancelled = true
  }

  /** A model of this kind scores a question and a document that are one text; the others have a vector for each. */
  get #scoresPairs(): boolean {
    return this.#settings.kind === 'rerank'
  }

  async #tokenize({ texts: given, query }: PoolOrder): Promise<Int32Array[]> {
    const texts = query === null || this.#scoresPairs ? given : [query, ...given]
    const most = Math.min(this.#session.contextLength, this.#session.batch.most)
    const all = []
    for (const [place, text] of texts.entries()) {
      const tokens = await this.#tokensOf(text, query)
      if (tokens.length > most) {
        const message = `text ${place} has ${tokens.length} tokens, and the model's context has ${most} tokens: send a shorter text`
        throw ServerError.withoutStack('INVALID_ARG', message)
      }
      if (tokens.length === 0) throw ServerError.withoutStack('INVALID_ARG', `text ${place} has no tokens`)
      all.push(tokens)
    }
    return all
  }

  async #tokensOf(text: string | readonly number[], query: string | null): Promise<Int32Array> {
    if (typeof text !== 'string') {
      requireKnownTokens(text, this.#session.vocabularySize)
      return Int32Array.from(text)
    }
    requireTextLength(text, this.#session.contextLength)
    if (query === null || !this.#scoresPairs) return this.#session.tokenize(text, true)
    requireTextLength(query, this.#session.contextLength)
    return this.#pair(query, text)
  }

  /** As llama.cpp's server joins a question and a document: begin, question, end, separator, document, end. */
  async #pair(query: string, document: string): Promise<Int32Array> {
    const { library, vocabulary } = this.#session
    const [first, second] = [
      await this.#session.tokenize(query, false, false),
      await this.#session.tokenize(document, false, false),
    ]
    const known = (token: number): number[] => (token < 0 ? [] : [token])
    const [begin, end, separator] = [library.beginToken, library.endToken, library.separatorToken].map((of) =>
      known(of(vocabulary)),
    )
    const close = (end?.length ?? 0) > 0 ? end : separator
    return Int32Array.from([
      ...(begin ?? []),
      ...first,
      ...(close ?? []),
      ...(separator ?? []),
      ...second,
      ...(close ?? []),
    ])
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return
    this.#isRunning = true
    // No await stands between the last look and the end, so no job is missed.
    while (this.#jobs.length > 0) await this.#step()
    this.#isRunning = false
  }

  async #step(): Promise<void> {
    const { batch } = this.#session
    batch.clear()
    const begun: PoolJob[] = []
    for (const job of this.#jobs) {
      if (job.isCancelled) continue
      while (job.begun < job.texts.length && begun.length < this.#settings.slots) {
        const tokens = job.texts[job.begun] as Int32Array
        if (batch.length + tokens.length > batch.most) break
        for (const [place, token] of tokens.entries()) batch.add(token, place, begun.length, true)
        job.begun++
        begun.push(job)
      }
    }
    try {
      if (begun.length > 0) await this.#session.decode()
      const length = this.#scoresPairs ? 1 : this.#session.embeddingLength
      for (const [place, job] of begun.entries()) job.vectors.push(this.#session.embeddingOf(place, length))
    } catch (reason) {
      for (const job of new Set(begun)) {
        this.#jobs.splice(this.#jobs.indexOf(job), 1)
        this.#fail(job.order.key, reason)
      }
    } finally {
      for (const place of begun.keys()) this.#session.forget(place, 0)
    }
    this.#finish()
  }

  #finish(): void {
    const isDone = (job: PoolJob): boolean => job.isCancelled || job.vectors.length === job.texts.length
    for (const job of this.#jobs.filter(isDone)) {
      this.#jobs.splice(this.#jobs.indexOf(job), 1)
      if (job.isCancelled) this.#fail(job.order.key, ServerError.withoutStack('CANCELLED', ''))
      else this.#post([this.#answer(job)])
    }
  }

  #answer({ order, texts, vectors }: PoolJob): EngineMessage {
    const inputTokens = texts.reduce((sum, text) => sum + text.length, 0)
    const rows = this.#scoresPairs ? vectors : order.query === null ? vectors.map(unitVector) : similarities(vectors)
    const length = rows[0]?.length ?? 0
    const values = new Float32Array(length * rows.length)
    for (const [place, row] of rows.entries()) values.set(row, place * length)
    return { kind: 'vectors', key: order.key, length, values, inputTokens }
  }

  #fail(key: number, reason: unknown): void {
    const code = reason instanceof ServerError ? reason.code : 'INTERNAL'
    this.#post([{ kind: 'failed', key, code, message: messageOf(reason) }])
  }
}

function unitVector(vector: Float32Array): Float32Array {
  let sum = 0
  for (const value of vector) sum += value * value
  const norm = Math.sqrt(sum)
  return norm === 0 ? vector : vector.map((value) => value / norm)
}

/** The cosines of the angles between the first vector and each of the others. */
function similarities(vectors: readonly Float32Array[]): Float32Array[] {
  const [query = new Float32Array(), ...documents] = vectors.map(unitVector)
  return documents.map((document) =>
    Float32Array.of(document.reduce((sum, value, at) => sum + value * (query[at] ?? 0), 0)),
  )
}

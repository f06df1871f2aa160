// One model with one context of llama.cpp. The library ends the process on wrong values, so every value is checked before the
// call: tokens against the vocabulary, batches against their size, texts against the context.

import { ServerError } from '../../../base/server-error.ts'
import type { SamplingParameters } from '../../../llm/sampling-parameters.ts'
import type { EngineSettings, EngineTask } from '../engine-protocol.ts'
import { addressOf, openLlamaLibrary, viewFloats, type LlamaLibrary } from './llama-library.ts'
import type { LanguageRuntime } from './language-runtime.ts'
import { loadWeights } from './load-weights.ts'
import type { SamplingSession } from './sampling-session.ts'
import { ThreadGovernor } from './thread-governor.ts'
import { TokenBatch } from './token-batch.ts'
import { TokenSampler } from './token-sampler.ts'

/** Kinds of pooling: as the file says, none, the mean of all tokens, a score. */
const [saidPooling, noPooling, meanPooling, rankPooling] = [-1, 0, 1, 4]
/** Where the layers are: on one GPU, in turn on all of them, or each on all of them. */
const splitModes = { none: 0, layer: 1, row: 2 } as const
const encoder = new TextEncoder()

/** The library rounds the memory of a sequence up to this. */
const memoryUnit = 256

/** A token of more bytes is asked for again with a larger buffer. */
const usualPieceBytes = 64

/** What steps are measured with. */
type StepWatch = {
  readonly nowMs: () => number
  /** What all threads of the process have computed. */
  readonly cpuMs: () => number
}

export class LlamaSession implements LanguageRuntime, SamplingSession {
  readonly library: LlamaLibrary
  readonly vocabulary: number
  readonly vocabularySize: number
  readonly embeddingLength: number
  readonly isDivided: boolean
  readonly sharesParts: boolean
  readonly batch: TokenBatch
  readonly cells: number
  readonly contextLength: number
  readonly #model: number
  readonly #context: number
  readonly #memory: number
  readonly #encodes: boolean
  /** The text of each token, with and without the texts of control tokens, once it was asked for. */
  readonly #pieces: (Uint8Array | undefined)[][] = [[], []]
  readonly #adapters: ReadonlyMap<string, number>
  #adapter = ''
  readonly #isEnd: Uint8Array
  readonly #governor: ThreadGovernor
  readonly #watch: StepWatch | null

  private constructor(library: LlamaLibrary, task: EngineTask, watch: StepWatch) {
    const { settings } = task
    this.library = library
    this.#governor = new ThreadGovernor(settings.threads)
    // What is computed on a GPU does not wait for threads.
    this.#watch = settings.threads > 1 && settings.gpuLayers === 0 ? watch : null
    const gpu = { n_gpu_layers: settings.gpuLayers, main_gpu: settings.gpu, split_mode: splitModes[settings.gpuSplit] }
    this.#model = loadWeights(library, task, { ...library.modelDefaults(), ...gpu })
    if (this.#model === 0) throw new ServerError('INVALID_ARG', 'llama.cpp could not load the file')
    const pools = settings.kind !== 'generate'
    this.isDivided = hasMemoryForAll(settings)
    const context = {
      ...library.contextDefaults(),
      n_ctx: this.isDivided ? settings.cells - (settings.cells % (settings.slots * memoryUnit)) : settings.cells,
      n_batch: settings.batchTokens,
      n_ubatch: pools ? settings.batchTokens : Math.min(partTokens(settings), settings.batchTokens),
      // Memory is kept for the logits of so many tokens. Of a sequence only those of its last token are asked for.
      ...(pools ? {} : { n_outputs_max: settings.slots }),
      n_seq_max: settings.slots,
      n_threads: settings.threads,
      n_threads_batch: settings.threads,
      embeddings: pools,
      pooling_type: settings.kind === 'rerank' ? rankPooling : saidPooling,
      // Without layers on a GPU nothing is computed there.
      offload_kqv: settings.gpuLayers > 0,
      op_offload: settings.gpuLayers > 0,
      kv_unified: !this.isDivided,
      swa_full: true,
    }
    this.#context = this.#createContext(context)
    if (this.#context === 0) throw new ServerError('UNAVAILABLE', contextAdvice(settings.cells))
    library.attachThreads(this.#context, settings.threads)
    this.#memory = library.memory(this.#context)
    this.vocabulary = library.vocabulary(this.#model)
    this.vocabularySize = library.tokenCount(this.vocabulary)
    this.embeddingLength = library.embeddingLength(this.#model)
    this.#encodes = library.hasEncoder(this.#model) && !library.hasDecoder(this.#model)
    this.sharesParts = !library.isRecurrent(this.#model) && !library.isHybrid(this.#model)
    this.cells = library.contextCells(this.#context)
    this.contextLength = Math.min(settings.contextLength, this.cells)
    this.batch = new TokenBatch(settings.batchTokens)
    this.#isEnd = Uint8Array.from({ length: this.vocabularySize }, (_, id) =>
      Number(library.isEndToken(this.vocabulary, id)),
    )
    this.#adapters = new Map(settings.adapters.map(({ name, path }) => [name, this.#openAdapter(name, path)]))
  }

  /** A model that was made to write says nothing about pooling: then its vector is the mean of those of its tokens. */
  #createContext(settings: Record<string, unknown>): number {
    const context = this.library.createContext(this.#model, settings)
    if (context === 0 || settings['embeddings'] !== true) return context
    if (this.library.poolingOf(context) !== noPooling) return context
    this.library.freeContext(context)
    return this.library.createContext(this.#model, { ...settings, pooling_type: meanPooling })
  }

  static open(task: EngineTask, watch: StepWatch, onLog: (level: number, text: string) => void): LlamaSession {
    const { gpuLayers, gpu } = task.settings
    return new LlamaSession(openLlamaLibrary(task.library, onLog, gpuLayers > 0 ? gpu : null), task, watch)
  }

  isEnd(token: number): boolean {
    return this.#isEnd[token] === 1
  }

  get endTokens(): readonly number[] {
    return [...this.#isEnd.keys()].filter((id) => this.#isEnd[id] === 1)
  }

  createSampler(sampling: SamplingParameters, prompt: Int32Array, grammar: string): TokenSampler {
    return new TokenSampler(this, sampling, prompt, grammar)
  }

  /** Runs beside the steps. `isParsed`: texts of control tokens become these tokens. */
  async tokenize(text: string, addsSpecial: boolean, isParsed = true): Promise<Int32Array> {
    const bytes = encoder.encode(text)
    // A text has at most one token per byte, and a few that are added around it.
    const tokens = new Int32Array(bytes.length + 16)
    const count = await callAsync(this.library.tokenize, [
      this.vocabulary, addressOf(bytes), bytes.length, addressOf(tokens), tokens.length, addsSpecial, isParsed,
    ]) // prettier-ignore
    if (count < 0) throw new ServerError('INTERNAL', `llama.cpp could not tokenize a text of ${bytes.length} bytes`)
    return tokens.slice(0, count)
  }

  threadUs(): number {
    const { user, system } = process.threadCpuUsage()
    return user + system
  }

  /** The bytes of a token; they need not be whole characters. */
  pieceOf(token: number, showsControl: boolean): Uint8Array {
    const pieces = this.#pieces[Number(showsControl)] as (Uint8Array | undefined)[]
    return (pieces[token] ??= this.#readPiece(token, showsControl))
  }

  #readPiece(token: number, showsControl: boolean): Uint8Array {
    let buffer = new Uint8Array(usualPieceBytes)
    const read = (): number =>
      this.library.pieceOf(this.vocabulary, token, addressOf(buffer), buffer.length, 0, showsControl)
    let length = read()
    if (length < 0) {
      buffer = new Uint8Array(-length)
      length = read()
    }
    return buffer.slice(0, Math.max(0, length))
  }

  /** Computes the batch in another thread. Throws for what the library refuses. */
  async decode(): Promise<void> {
    const run = this.#encodes ? this.library.encode : this.library.decode
    const [startMs, startCpuMs] = [this.#watch?.nowMs() ?? 0, this.#watch?.cpuMs() ?? 0]
    const code = await callAsync(run, [this.#context, this.batch.struct])
    if (this.#watch !== null) this.#govern(this.#watch, startMs, startCpuMs)
    if (code === 0) return
    const reason = code === 1 ? 'its memory has no free cells' : `code ${code}`
    throw new ServerError('INTERNAL', `llama.cpp could not compute ${this.batch.length} tokens: ${reason}`)
  }

  #govern({ nowMs, cpuMs }: StepWatch, startMs: number, startCpuMs: number): void {
    const endMs = nowMs()
    const before = this.#governor.threads
    const report = { tokens: this.batch.length, tookMs: endMs - startMs, nowMs: endMs, cpuMs: cpuMs() - startCpuMs }
    this.#governor.stepped(report)
    const { threads } = this.#governor
    if (threads !== before) this.library.setThreads(this.#context, threads, threads)
  }

  /** What the model says comes after the token at `row` of the last batch: a view, valid until the next decode. */
  logitsAt(row: number): Float32Array {
    const address = this.library.logitsAt(this.#context, row)
    if (address === 0) throw new ServerError('INTERNAL', `llama.cpp has no logits for row ${row}`)
    return viewFloats(address, this.vocabularySize)
  }

  sample(sampler: number, row: number): number {
    return this.library.sample(sampler, this.#context, row)
  }

  /** The pooled vector of a sequence, copied. */
  embeddingOf(sequence: number, length: number): Float32Array {
    const address = this.library.embeddingOf(this.#context, sequence)
    if (address === 0) throw new ServerError('INTERNAL', `llama.cpp has no embedding for sequence ${sequence}`)
    return Float32Array.from(viewFloats(address, length))
  }

  /** Drops the tokens of a sequence from `position` on. False: the model cannot go back; nothing is left of the sequence. */
  forget(sequence: number, position: number): boolean {
    if (this.#memory === 0) return true
    if (this.library.removeCells(this.#memory, sequence, position, -1)) return true
    this.library.removeCells(this.#memory, sequence, -1, -1)
    return false
  }

  /** `target` gets the first tokens of `source`; both share the memory, or `target` has a copy. `target` must be empty. */
  share(source: number, target: number, length: number): void {
    if (!this.isDivided) this.library.copyCells(this.#memory, source, target, 0, length)
    else {
      // The library copies the memory of a sequence as a whole.
      this.library.copyCells(this.#memory, source, target, -1, -1)
      this.library.removeCells(this.#memory, target, length, -1)
    }
  }

  hasAdapter(name: string): boolean {
    return name === '' || this.#adapters.has(name)
  }

  /** The next decodes use this adapter; '': none. */
  useAdapter(name: string): void {
    if (name === this.#adapter) return
    this.#adapter = name
    const address = this.#adapters.get(name)
    if (address === undefined) this.library.setAdapters(this.#context, 0, 0, 0)
    else {
      const list = new BigInt64Array([BigInt(address)])
      this.library.setAdapters(this.#context, addressOf(list), 1, addressOf(new Float32Array([1])))
    }
  }

  #openAdapter(name: string, path: string): number {
    const address = this.library.openAdapter(this.#model, path)
    if (address === 0)
      throw new ServerError('INVALID_ARG', `llama.cpp could not load the adapter '${name}' from '${path}'`)
    return address
  }

  close(): void {
    this.library.freeContext(this.#context)
    this.library.freeModel(this.#model)
  }
}

/**
 * A step looks at all cells of a memory that sequences share, also at those of other sequences: 16 answers of 170 tokens took 1.2 times as long
 * as with a memory for each. So each sequence has its own where there are enough cells for the longest one.
 */
const hasMemoryForAll = ({ kind, slots, contextLength, cells }: EngineSettings): boolean =>
  kind === 'generate' && slots > 1 && slots * Math.ceil(contextLength / memoryUnit) * memoryUnit <= cells

/** The library computes a step in parts of so many tokens. On a processor long parts took 0.93 to 0.95 of the time of parts of 512 tokens; on a GPU that was not tried. */
const partTokens = ({ gpuLayers }: EngineSettings): number => (gpuLayers === 0 ? 2048 : 512)

const contextAdvice = (cells: number): string =>
  `llama.cpp could not make a context of ${cells} tokens: there may be too little memory; set the parameter 'kv_cells' or 'context_length' lower`

type AsyncFunction = { async: (...values: [...unknown[], (error: Error | null, result: number) => void]) => void }

function callAsync(call: AsyncFunction, values: readonly unknown[]): Promise<number> {
  return new Promise((resolve, reject) => {
    call.async(...values, (error: Error | null, result: number) => (error === null ? resolve(result) : reject(error)))
  })
}

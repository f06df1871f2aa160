import type {
  LanguageRuntime,
  RuntimeBatch,
  RuntimeSampler,
} from '../../src/backends/llamacpp/engine/language-runtime.ts'

type Cell = { readonly token: number; readonly adapter: string }
type Entry = { token: number; position: number; sequence: number; isWanted: boolean }

const vocabulary = 26
const letterA = 97

/** The next token of a made-up model: it follows from all tokens before it, so a single wrong one in memory changes the answer. */
export function nextToken(tokens: readonly number[], adapter = ''): number {
  let hash = 2166136261 ^ adapter.length
  for (const token of tokens) hash = Math.imul(hash ^ (token + 1), 16777619) >>> 0
  return hash % vocabulary
}

export const tokensOf = (text: string): number[] => text.split('').map((letter) => letter.charCodeAt(0) - letterA)
export const textOf = (tokens: readonly number[]): string =>
  tokens.map((token) => String.fromCharCode(token + letterA)).join('')

/** A runtime with the rules of llama.cpp: positions have no gaps, cells are finite, sequences share cells, batches have a size. */
export class FakeLanguageRuntime implements LanguageRuntime {
  readonly contextLength: number
  readonly batch: RuntimeBatch
  readonly sequences: Cell[][]
  /** Called before a batch is computed; a promise delays the step. */
  beforeDecode: () => Promise<void> = () => Promise.resolve()
  openSamplers = 0
  decodedTokens = 0
  readonly cells: number
  readonly isDivided = true
  /** False: the rules of models whose memory is a state after all tokens. */
  readonly sharesParts: boolean
  #entries: Entry[] = []
  #results: number[] = []
  #adapter = ''

  constructor(
    settings: { cells: number; slots: number; contextLength: number; batchTokens: number },
    sharesParts = true,
  ) {
    this.sharesParts = sharesParts
    this.cells = settings.cells
    this.contextLength = settings.contextLength
    this.sequences = Array.from({ length: settings.slots }, () => [])
    const entries = this.#entries
    this.batch = {
      most: settings.batchTokens,
      get length() {
        return entries.length
      },
      clear: () => (entries.length = 0),
      add: (token, position, sequence, isWanted) => entries.push({ token, position, sequence, isWanted }) - 1,
    }
  }

  get usedCells(): number {
    return new Set(this.sequences.flat()).size
  }

  tokenize(text: string): Promise<Int32Array> {
    return Promise.resolve(Int32Array.from(tokensOf(text)))
  }

  createSampler(): RuntimeSampler {
    this.openSamplers++
    let isOpen = true
    return {
      cumulativeLogprob: 0,
      isComplete: false,
      pick: (row) => ({ token: this.#results[row] as number, logprob: null }),
      close: () => {
        if (!isOpen) throw new Error('a sampler is closed once')
        isOpen = false
        this.openSamplers--
      },
    }
  }

  isEnd(): boolean {
    return false
  }

  pieceOf(token: number): Uint8Array {
    return new TextEncoder().encode(textOf([token]))
  }

  async decode(): Promise<void> {
    await this.beforeDecode()
    if (this.#entries.length > this.batch.most) throw new Error('a batch is too large')
    this.#results = this.#entries.map(({ token, position, sequence, isWanted }) => {
      const memory = this.sequences[sequence] as Cell[]
      if (memory.length !== position) throw new Error(`position ${position} after ${memory.length} tokens`)
      memory.push({ token, adapter: this.#adapter })
      if (memory.some((cell) => cell.adapter !== this.#adapter)) throw new Error('a sequence has tokens of two adapters')
      this.decodedTokens++
      return isWanted ? nextToken(memory.map((cell) => cell.token), this.#adapter) : -1
    }) // prettier-ignore
    if (this.usedCells > this.cells) throw new Error('there is no free cell')
  }

  forget(sequence: number, position: number): boolean {
    const memory = this.sequences[sequence] as Cell[]
    const canCut = this.sharesParts || position === 0
    memory.length = canCut ? position : 0
    return canCut
  }

  share(source: number, target: number, length: number): void {
    if ((this.sequences[target] as Cell[]).length > 0) throw new Error('the target of a copy is empty')
    this.sequences[target] = (this.sequences[source] as Cell[]).slice(0, this.sharesParts ? length : undefined)
  }

  hasAdapter(): boolean {
    return true
  }

  useAdapter(name: string): void {
    this.#adapter = name
  }
}

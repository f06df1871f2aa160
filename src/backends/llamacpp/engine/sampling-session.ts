import type { LlamaLibrary } from './llama-library.ts'

/** What the choice of a token needs of a session. */
export interface SamplingSession {
  readonly library: LlamaLibrary
  readonly vocabulary: number
  readonly vocabularySize: number
  readonly endTokens: readonly number[]
  isEnd(token: number): boolean
  pieceOf(token: number, showsControl: boolean): Uint8Array
  /** What the model says comes after the token at `row` of the last batch: a view, valid until the next decode. */
  logitsAt(row: number): Float32Array
  sample(sampler: number, row: number): number
  /** The time of the processor that this thread has used. A busy machine makes no grammar too slow. */
  threadUs(): number
}

// What the engine asks of whatever computes tokens: llama.cpp, or a stand-in in tests.

import type { SamplingParameters } from '../../../llm/sampling-parameters.ts'
import type { ChosenLogprob } from '../engine-protocol.ts'

/** The tokens of one decode. */
export interface RuntimeBatch {
  readonly most: number
  readonly length: number
  clear(): void
  /** The place of the token in the batch. `isWanted`: what comes after the token is to be computed. */
  add(token: number, position: number, sequence: number, isWanted: boolean): number
}

/** Chooses the tokens of one sequence. */
export interface RuntimeSampler {
  readonly cumulativeLogprob: number
  /** Whether a grammar has been followed to its end, and allows nothing more. */
  readonly isComplete: boolean
  /** `row` is the place of the last token in the batch. */
  pick(row: number): { readonly token: number; readonly logprob: ChosenLogprob | null }
  close(): void
}

export interface LanguageRuntime {
  readonly cells: number
  readonly contextLength: number
  readonly batch: RuntimeBatch
  /** Whether each sequence has a memory of its own. */
  readonly isDivided: boolean
  /** Whether a sequence can get a part of another's tokens. False: models whose memory is a state after all tokens give all or nothing. */
  readonly sharesParts: boolean
  tokenize(text: string, addsSpecial: boolean): Promise<Int32Array>
  /** `grammar` is GBNF; '': none. Throws where it is none. */
  createSampler(sampling: SamplingParameters, prompt: Int32Array, grammar: string): RuntimeSampler
  isEnd(token: number): boolean
  /** The bytes of a token; they need not be whole characters. */
  pieceOf(token: number, showsControl: boolean): Uint8Array
  /** Computes the batch. Throws for what cannot be computed. */
  decode(): Promise<void>
  /** Drops the tokens of a sequence from `position` on. False: the model cannot go back; nothing is left of the sequence. */
  forget(sequence: number, position: number): boolean
  /** `target`, which is empty, gets the first tokens of `source`; both share the memory. */
  share(source: number, target: number, length: number): void
  hasAdapter(name: string): boolean
  /** The next decodes use this adapter; '': none. */
  useAdapter(name: string): void
}

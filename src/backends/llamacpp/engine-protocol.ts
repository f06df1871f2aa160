// The messages between the server and the process of an engine. Node clones them.

import type { ErrorCode } from '../../base/server-error.ts'
import type { SamplingParameters } from '../../llm/sampling-parameters.ts'

/** What one instance is. */
export type EngineTask = {
  /** The folder of llama.cpp's libraries. */
  readonly library: string
  readonly modelPath: string
  /** Where the weights in another form are written before they are read; the server removes it. Null where the form is that of the file. */
  readonly rewrittenPath: string | null
  readonly settings: EngineSettings
}

export type EngineSettings = {
  readonly kind: 'generate' | 'embed' | 'rerank'
  /** Sequences that run at the same time. */
  readonly slots: number
  /** Tokens that the memory of all sequences holds together. */
  readonly cells: number
  /** Tokens that one sequence may have. */
  readonly contextLength: number
  /** Tokens of one step. */
  readonly batchTokens: number
  /** Prompt tokens of one step; 0: as many as keep the running answers on time. */
  readonly promptTokens: number
  readonly threads: number
  /** The form of the weights in memory; `file`: as they are in the file. */
  readonly weights: 'file' | 'q8_0' | 'bf16'
  readonly gpuLayers: number
  readonly gpu: number
  /** `none`: all on `gpu`. `layer`, `row`: on all GPUs together. */
  readonly gpuSplit: 'none' | 'layer' | 'row'
  /** Requests that may wait in the process for a slot. */
  readonly waiting: number
  /** An answer ends so long after its request got a slot; 0: no limit. */
  readonly answerMs: number
  readonly adapters: readonly { readonly name: string; readonly path: string }[]
}

export type GenerateOrder = {
  readonly kind: 'generate'
  readonly key: number
  readonly text: string
  readonly sampling: SamplingParameters
  /** Smaller goes first. */
  readonly priority: number
  readonly isStreamed: boolean
  /** How long the request has waited before it came to the engine. */
  readonly waitedMs: number
}

export type PoolOrder = {
  readonly kind: 'pool'
  readonly key: number
  /** The texts to embed, as text or as tokens, or the documents to score against `query`. */
  readonly texts: readonly (string | readonly number[])[]
  readonly query: string | null
  readonly priority: number
}

export type ToEngine =
  | GenerateOrder
  | PoolOrder
  | { readonly kind: 'tokenize'; readonly key: number; readonly text: string; readonly addSpecial: boolean }
  | { readonly kind: 'detokenize'; readonly key: number; readonly tokens: readonly number[] }
  | { readonly kind: 'cancel'; readonly key: number }
  | { readonly kind: 'flow'; readonly key: number; readonly isPaused: boolean }
  | { readonly kind: 'ping' }
  | { readonly kind: 'finish' }

export type TokenLogprob = {
  readonly id: number
  readonly token: string
  readonly bytes: readonly number[]
  readonly logprob: number
}
export type ChosenLogprob = TokenLogprob & { readonly top: readonly TokenLogprob[] }

/** `stop`: an end token or a stop text; `length`: max_tokens, the context, or the time of an answer. */
export type FinishReason = 'stop' | 'length' | 'cancelled'

/** What a sequence has said since its last message. */
export type TextMessage = {
  readonly kind: 'text'
  readonly key: number
  readonly text: string
  readonly logprobs: readonly ChosenLogprob[] | null
  /** Null: more will come. */
  readonly end: GenerationEnd | null
}

export type GenerationEnd = {
  readonly reason: FinishReason
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cachedTokens: number
  readonly cumulativeLogprob: number
  /** From the slot to the first token, and from there to the end. */
  readonly promptMs: number
  readonly answerMs: number
}

/** What the engine is doing, for metrics. Counts are since the last message. */
export type EngineFigures = {
  readonly running: number
  readonly waiting: number
  readonly usedCells: number
  readonly cells: number
  readonly promptTokens: number
  /** Of prompts that were compared with what is in memory, and what of them was there. */
  readonly promptTokensAsked: number
  readonly cachedTokens: number
  readonly generatedTokens: number
  readonly preemptions: number
  readonly steps: number
  /** Milliseconds, one for each first token and each further token. */
  readonly firstTokenMs: readonly number[]
  readonly interTokenMs: readonly number[]
}

export type EngineMessage =
  | TextMessage
  | {
      readonly kind: 'vectors'
      readonly key: number
      readonly length: number
      readonly values: Float32Array
      readonly inputTokens: number
    }
  | { readonly kind: 'tokens'; readonly key: number; readonly tokens: Int32Array }
  | { readonly kind: 'plain'; readonly key: number; readonly text: string }
  | { readonly kind: 'failed'; readonly key: number; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: 'started'; readonly contextLength: number; readonly cells: number }
  | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: 'figures'; readonly figures: EngineFigures }
  | { readonly kind: 'log'; readonly level: 'warning' | 'info' | 'verbose'; readonly message: string }
  | { readonly kind: 'pong' }

export type FromEngine = readonly EngineMessage[]

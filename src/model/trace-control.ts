// Which requests are traced, as front ends show and change it. Types only.

export type TraceLevel = 'TIMESTAMPS' | 'TENSORS'

export type TraceSettings = {
  /** Empty: tracing is off. */
  readonly levels: readonly TraceLevel[]
  /** One of so many requests. */
  readonly rate: number
  /** So many more traces; -1: without end. */
  readonly count: number
  /** 0: one file, else a new file after so many traces. */
  readonly logFrequency: number
}

/** What is left out stays; null goes back to what is inherited: a model's from all models, theirs from the start. */
export type TraceChanges = { readonly [K in keyof TraceSettings]?: TraceSettings[K] | null }

export interface TraceControl {
  readonly mode: 'triton' | 'opentelemetry'
  /** '' when none was named at start, or in mode `opentelemetry`. */
  readonly file: string
  /** What was set for the mode `opentelemetry` at start, in Triton's order; a name may come more than once. */
  readonly modeSettings: readonly (readonly [name: string, value: string])[]
  /** Of the model, or of all models for ''. */
  settings(modelName: string): TraceSettings
  /** Throws INVALID_ARG with Triton's text, and then changes nothing. */
  update(modelName: string, changes: TraceChanges): void
}

// The settings of tracing, as front ends show and change them. Types only.

export type TraceLevel = 'TIMESTAMPS' | 'TENSORS'

export type TraceSettings = {
  /** Empty: tracing is off. */
  readonly levels: readonly TraceLevel[]
  /** One request of so many is traced. */
  readonly rate: number
  /** How many more traces are written; -1: no limit. */
  readonly count: number
  /** A new file begins after so many traces; 0: all traces go into one file. */
  readonly logFrequency: number
}

/** A key that is left out stays. Null: a model inherits from all models, and all models from the start. */
export type TraceChanges = { readonly [K in keyof TraceSettings]?: TraceSettings[K] | null }

export interface TraceControl {
  readonly mode: 'triton' | 'opentelemetry'
  /** The trace file; '' when none was named at start, or in mode `opentelemetry`. */
  readonly file: string
  /** The settings of mode `opentelemetry` at start, in Triton's order; a name may come more than once. */
  readonly modeSettings: readonly (readonly [name: string, value: string])[]
  /** The settings of the model; '' asks for those of all models. */
  settings(modelName: string): TraceSettings
  /** Throws INVALID_ARG with Triton's text, and then changes nothing. */
  update(modelName: string, changes: TraceChanges): void
}

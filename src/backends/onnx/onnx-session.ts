// The interface between the backend and a binding that runs models: ONNX Runtime's C API (native/) or
// onnxruntime-node's JavaScript API in a worker thread (fallback/).

import type { ServerError } from '../../base/server-error.ts'
import type { DataType } from '../../tensor/data-type.ts'
import type { Shape } from '../../tensor/shape.ts'
import type { Place, SessionSettings } from './session-settings.ts'

/** An input or output as the model file declares it. */
export type OnnxTensorSpec = {
  readonly name: string
  /** Null when it is not a tensor, or of a type that the protocol does not know (sequence, map, FP8…). */
  readonly dataType: DataType | null
  /** The type as the file names it, for messages: `FP32`, `sequence`, `float8e4m3fn`. */
  readonly typeText: string
  /** With the batch dimension; -1 is open. Null when the file gives no shape. */
  readonly shape: Shape | null
  /** Names of the open dimensions, '' for a dimension without a name; as long as `shape`. */
  readonly symbols: readonly string[]
}

export type RunInput = { readonly shape: Shape; readonly bytes: Uint8Array }

export type RunRequest = {
  /** One entry per input of the session, then one per overridable initializer, in order; null: not given. */
  readonly inputs: readonly (RunInput | null)[]
  /** Indexes into the session's outputs: only these are computed. */
  readonly outputs: readonly number[]
  readonly place: Place
}

export type RunOutput = { readonly shape: Shape; readonly bytes: Uint8Array }

export type RunResult =
  | {
      readonly error: null
      /** In the order of the request. The bytes are valid until `release`. */
      readonly outputs: readonly RunOutput[]
      /** Null for an inline run, which takes as long as the call does. */
      readonly elapsedNs: number | null
      readonly release: (() => void) | null
    }
  | { readonly error: ServerError; readonly isTerminated: boolean }

/** Runs a session for one Instance: one run at a time. */
export interface OnnxRunner {
  /** Calls `finished` exactly once; with the place inline before `run` returns. Never throws. */
  run(request: RunRequest, finished: (result: RunResult) => void): void
  /** Ends the run in progress, if it can be ended; its result then says `isTerminated`. */
  terminate(): void
  /** As that of an Instance. */
  pulse?(): Promise<boolean>
  /** Call it only between runs; twice is fine. */
  close(): void
}

/** A model in memory. All runners share its weights. */
export interface OnnxSession {
  /** False: every run is offloaded, also when the place is inline. */
  readonly canRunInline: boolean
  readonly inputs: readonly OnnxTensorSpec[]
  /** Initializers that a request may replace. They are optional inputs. */
  readonly overridable: readonly OnnxTensorSpec[]
  readonly outputs: readonly OnnxTensorSpec[]
  createRunner(): OnnxRunner
  /** Call it after every runner is closed; twice is fine. */
  close(): Promise<void>
}

export interface OnnxBinding {
  readonly name: 'c-api' | 'javascript'
  /** Rejects with the binding's own error; load-error.ts makes the error text. */
  createSession(modelPath: string, settings: SessionSettings): Promise<OnnxSession>
  close(): Promise<void>
}

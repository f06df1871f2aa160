// The interface between the backend and a binding that runs models: ONNX Runtime's C API (native/) or
// onnxruntime-node's JavaScript API in a worker thread (fallback/).

import type { ServerError } from '../../base/server-error.ts'
import type { DataType } from '../../tensor/data-type.ts'
import type { Shape } from '../../tensor/shape.ts'
import type { GpuTraits, Place, SessionSettings } from './session-settings.ts'

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

export type RunInput = {
  readonly shape: Shape
  readonly bytes: Uint8Array
  /** The pieces that make up the input, one behind the other; `bytes` are then empty. Only for a runner that takes parts. */
  readonly parts?: readonly Uint8Array[]
}

/** Rows of an output that belong into memory of the GPU. */
export type OutputPlace = {
  /** Position among the outputs of the request. */
  readonly output: number
  readonly firstRow: number
  /** Of all rows of the batch. */
  readonly rowCount: number
  /** Where they go; deviceAddressOf knows the address. */
  readonly bytes: Uint8Array
}

export type OutputPlaces = {
  /** All rows of the batch. False: the model has no rows, and an output is one row. */
  readonly rows: number
  readonly isBatched: boolean
  readonly places: readonly OutputPlace[]
}

export type RunRequest = {
  /** One entry per input of the session, then one per overridable initializer, in order; null: not given. */
  readonly inputs: readonly (RunInput | null)[]
  /** Indexes into the session's outputs: only these are computed. */
  readonly outputs: readonly number[]
  readonly place: Place
  /** No client waits for the outputs. */
  readonly isPatient?: boolean
  /** Absent or null: all outputs come back in memory of the host. */
  readonly outputPlaces?: OutputPlaces | null
}

export type RunOutput = {
  readonly shape: Shape
  readonly bytes: Uint8Array
  /** All rows went to `outputPlaces`, and `bytes` are empty. */
  readonly isPlaced?: boolean
}

export type RunResult =
  | {
      readonly error: null
      /** In the order of the request. The bytes are valid until `release`. */
      readonly outputs: readonly RunOutput[]
      /** Null for an inline run, which takes as long as the call does. */
      readonly elapsedNs: number | null
      /** How long copies to the GPU took before the run, and from it afterwards; absent: there were none. */
      readonly copiedNs?: { readonly before: number; readonly after: number }
      readonly release: (() => void) | null
    }
  | { readonly error: ServerError; readonly isTerminated: boolean }

/** Runs a session for one Instance: one run at a time. */
export interface OnnxRunner {
  /** The GPU whose memory inputs and outputs may lie in; absent: only memory of the host. */
  readonly deviceId?: number
  /** Calls `finished` exactly once; with the place inline before `run` returns. Never throws. */
  run(request: RunRequest, finished: (result: RunResult) => void): void
  /** Ends the run in progress, if it can be ended; its result then says `isTerminated`. */
  terminate(): void
  /** Why no run will ever work again: what it runs on is gone. Absent or null: runs work. */
  readonly lost?: string | null
  /** As that of an Instance. */
  pulse?(): Promise<boolean>
  /** Call it only between runs; twice is fine. */
  close(): void
}

export type GpuPlace = GpuTraits & { readonly deviceId: number }

/** A model in memory. All runners share its weights. */
export interface OnnxSession {
  /** False: every run is offloaded, also when the place is inline. */
  readonly canRunInline: boolean
  readonly inputs: readonly OnnxTensorSpec[]
  /** Initializers that a request may replace. They are optional inputs. */
  readonly overridable: readonly OnnxTensorSpec[]
  readonly outputs: readonly OnnxTensorSpec[]
  /** What its creation took of the memory of its GPU; absent: the session is on the CPU, or nobody has measured. */
  deviceBytes?: number
  /** `cores` are those on which its runs compute; absent or empty: all. */
  createRunner(cores?: readonly number[]): OnnxRunner
  /** Call it after every runner is closed; twice is fine. */
  close(): Promise<void>
}

export interface OnnxBinding {
  readonly name: 'c-api' | 'javascript'
  /** Rejects with the binding's own error; load-error.ts makes the error text. `gpu` null: the session runs on the CPU. */
  createSession(modelPath: string, settings: SessionSettings, gpu?: GpuPlace | null): Promise<OnnxSession>
  /** The execution providers that the library was built with, by ONNX Runtime's names. */
  providers(): Promise<readonly string[]>
  /** Null: models can run on GPUs with this provider. Otherwise why not, and what to do. */
  gpuObstacle(provider: 'cuda' | 'tensorrt'): Promise<string | null>
  close(): Promise<void>
}

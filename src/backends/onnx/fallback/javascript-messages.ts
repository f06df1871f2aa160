// The messages between the main thread and the thread that runs onnxruntime-node. Every field is always set.

import type { DataType } from '../../../tensor/data-type.ts'
import type { Shape } from '../../../tensor/shape.ts'
import type { SessionSettings } from '../session-settings.ts'

export type WireTensor = {
  readonly name: string
  readonly dataType: DataType
  readonly shape: Shape
  /** A buffer of its own, which is transferred with the message. BYTES are framed. */
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** An input or output as onnxruntime-node describes it; null: not a tensor. */
export type WireSpec = {
  readonly name: string
  readonly dataType: DataType | null
  readonly shape: readonly (number | string)[]
}

export type Ask =
  | { readonly kind: 'load'; readonly path: string; readonly settings: SessionSettings }
  | {
      readonly kind: 'run'
      readonly id: number
      readonly inputs: readonly WireTensor[]
      readonly outputs: readonly string[]
    }
  | { readonly kind: 'end' }

export type Answer =
  | { readonly kind: 'loaded'; readonly inputs: readonly WireSpec[]; readonly outputs: readonly WireSpec[] }
  | { readonly kind: 'load-failed'; readonly message: string }
  | { readonly kind: 'ran'; readonly id: number; readonly outputs: readonly WireTensor[]; readonly elapsedNs: number }
  | { readonly kind: 'run-failed'; readonly id: number; readonly message: string }

/** onnxruntime-node's names of element types; it does not know BF16. */
export const javaScriptTypes: Readonly<Record<string, DataType>> = {
  float32: 'FP32',
  float64: 'FP64',
  float16: 'FP16',
  int8: 'INT8',
  int16: 'INT16',
  int32: 'INT32',
  int64: 'INT64',
  uint8: 'UINT8',
  uint16: 'UINT16',
  uint32: 'UINT32',
  uint64: 'UINT64',
  bool: 'BOOL',
  string: 'BYTES',
}

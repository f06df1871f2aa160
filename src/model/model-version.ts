import type { ModelConfig } from '../config/model-config.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import type { LanguageFacts } from '../llm/language-facts.ts'
import type { InferenceRequest } from './inference-request.ts'
import type { QueueDoor } from './queue-report.ts'
import type { ModelKey } from './model-key.ts'

/** LOADING → READY → UNLOADING → UNAVAILABLE; LOADING → UNAVAILABLE when loading fails. */
export type ModelVersionState = 'LOADING' | 'READY' | 'UNLOADING' | 'UNAVAILABLE'

/** The GPU in whose memory outputs may lie, and inputs if `hasInputs`. */
export type DeviceMemory = { readonly deviceId: number; readonly hasInputs: boolean }

/** One numbered version of a model, as front ends see it. */
export interface ModelVersion {
  /** The key of the model. */
  readonly key: ModelKey
  readonly name: string
  readonly version: string
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly state: ModelVersionState
  /** Since when the version serves; absent: it does not, or sleeps. */
  readonly readyMs?: number
  /** The GPU in whose memory tensors of a request may lie; absent or null: in memory of the host only. */
  readonly deviceMemory?: DeviceMemory | null
  /** When a request is answered without an error, nobody looks at its inputs any more. Absent: somebody may. */
  readonly isDoneOnAnswer?: boolean
  /** Of a language model that is in memory; absent or null: the model is none, or sleeps. */
  readonly languageFacts?: LanguageFacts | null
  /** Requests that wait and have not begun. */
  readonly pendingCount: number
  /** Asked before a request is read. Null: every request is read. */
  readonly door: QueueDoor | null
  /** A request found the queue full and was not read. Absent: nobody counts it. */
  countRejected?(): void
  /** Whether the version has this sequence under way. */
  holdsSequence(id: bigint | string): boolean
  /** Takes the request over and sees to it that the request ends. Never throws. Only the Engine calls this. */
  admit(request: InferenceRequest): void
}

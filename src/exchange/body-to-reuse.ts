import type { InferenceResponse } from '../model/inference-response.ts'
import type { ModelVersion } from '../model/model-version.ts'

/** Smaller bodies are left to the collection of garbage. */
const leastReusedBytes = 1024 * 1024

/** The body, where it is large and nobody looks at it once its model has answered; null otherwise. HOT. */
export function bodyToReuse(
  body: Buffer | null,
  version: Pick<ModelVersion, 'isDoneOnAnswer'>,
  { outputs }: InferenceResponse,
): Buffer | null {
  if (body === null || body.length < leastReusedBytes || version.isDoneOnAnswer !== true) return null
  return isInOutputs(body, outputs) ? null : body
}

/** An output may be a view on an input. */
const isInOutputs = ({ buffer }: Uint8Array, outputs: InferenceResponse['outputs']): boolean =>
  outputs.some(({ bytes }) => bytes.buffer === buffer)

/**
 * Frees an input that the server made itself, where nobody looks at it once its model has answered. V8 counts memory outside of its
 * heap: left to the collection of garbage, eleven pictures of 224 x 224 were enough to begin one.
 */
export function freeInput(
  bytes: Uint8Array,
  version: Pick<ModelVersion, 'isDoneOnAnswer'>,
  { outputs }: InferenceResponse,
): void {
  if (version.isDoneOnAnswer === true && !isInOutputs(bytes, outputs)) freeBytes(bytes)
}

/** Of a buffer that has its memory for itself. */
export function freeBytes(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength) buffer.transfer(0)
}

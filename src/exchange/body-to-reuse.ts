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
  // An output may be a view on an input.
  return outputs.some(({ bytes }) => bytes.buffer === body.buffer) ? null : body
}

// What a handler says of itself, for `GET /models/{model}?customized=true`: it is asked like for a prediction, with the header `describe`.

import { randomUUID } from 'node:crypto'
import { lastOf } from '../../base/run-in-slices.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { fieldTensors, torchAnswer } from '../../protocol/torchserve/torch-request.ts'

/** Rejects with ServerError. */
export function ownDescription(
  engine: Pick<Engine, 'infer'>,
  version: ModelVersion,
  headers: readonly string[],
): Promise<object> {
  const id = randomUUID()
  const names = headers.filter((_, index) => index % 2 === 0)
  const pairs = names.map((name, index) => [name, headers[index * 2 + 1]] as const)
  const head = JSON.stringify(Object.fromEntries([...pairs, ['describe', 'True']]))
  const inputs = lastOf(fieldTensors([], { id, headers: head }, version.config.maxBatchSize > 0))
  return new Promise((resolve, reject) => {
    let told: object = {}
    const request = new InferenceRequest({
      modelName: version.name,
      modelVersion: version.version,
      id,
      inputs,
      sink: (response) => {
        if (response.error !== null) reject(response.error)
        else if (!response.isFlagOnly) told = objectIn(torchAnswer(response).body)
        response.release()
        if (response.isFinal) resolve(told)
      },
    })
    engine.infer(request, version)
  })
}

/** As in TorchServe, what is no object of JSON is told as an empty one, and members that are null are left out. */
function objectIn(body: Buffer): object {
  try {
    // A list keeps its nulls: JSON writes what is missing there as null.
    const value = JSON.parse(body.toString(), (_, member: unknown) => member ?? undefined) as unknown
    return typeof value === 'object' && !Array.isArray(value) ? (value ?? {}) : {}
  } catch (reason) {
    if (reason instanceof SyntaxError) return {}
    throw ServerError.from(reason)
  }
}

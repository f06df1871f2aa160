// Outputs that clients want in memory of the GPU: the run copies them there, and the host never sees them.

import { elementBytes, type DataType } from '../../tensor/data-type.ts'
import { elementCount, type Shape } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { BatchLayout } from './batch-layout.ts'
import type { OutputPlace, OutputPlaces } from './onnx-session.ts'
import type { OutputBinding } from './split-outputs.ts'

type PlaceRules = { readonly layout: BatchLayout | null; readonly isBatched?: boolean }

/** Null: no request of the batch wants an output on the GPU. */
export function placesOf(
  { layout, isBatched = false }: PlaceRules,
  outputs: readonly OutputBinding[],
  requests: readonly InferenceRequest[],
): OutputPlaces | null {
  if (layout !== null || requests.every((request) => request.outputPlaces === null)) return null
  const places: OutputPlace[] = []
  let rows = 0
  for (const request of requests) {
    const rowCount = isBatched ? (request.inputs[0]?.shape[0] ?? 0) : 1
    for (const [output, { name }] of outputs.entries()) {
      const bytes = request.outputPlaces?.get(name)
      if (bytes !== undefined) places.push({ output, firstRow: rows, rowCount, bytes })
    }
    rows += rowCount
  }
  return { rows, isBatched, places }
}

/** The tensors of an output that lies in the clients' regions, one per request. */
export function placedTensors(
  name: string,
  dataType: DataType,
  shape: Shape,
  requests: readonly InferenceRequest[],
  isSplit: boolean,
): Tensor[] {
  return requests.map((request) => {
    const own = isSplit ? [request.inputs[0]?.shape[0] ?? 0, ...shape.slice(1)] : shape
    const place = request.outputPlaces?.get(name) ?? noBytes
    const bytes = place.subarray(0, elementCount(own) * elementBytes[dataType])
    return new Tensor(name, dataType, own.length === 0 ? [1] : own, bytes)
  })
}

const noBytes = new Uint8Array(0)

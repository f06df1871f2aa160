// Splits the outputs of a run by request.

import { scatteredShape, type BatchLayout } from './batch-layout.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { DataType } from '../../tensor/data-type.ts'
import { splitElements, splitRows } from '../../tensor/gather.ts'
import { elementCount, shapeText, type Shape } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { RunOutput } from './onnx-session.ts'

export type OutputBinding = {
  readonly name: string
  readonly dataType: DataType
  /** Position among the session's outputs. */
  readonly sessionIndex: number
}

/** The tensors of one output, one per request; or a text why the output cannot be split. Views, no copies. */
export function splitOutput(
  { name, dataType }: OutputBinding,
  { shape, bytes }: RunOutput,
  requests: readonly InferenceRequest[],
  layout: BatchLayout | null,
): readonly Tensor[] | string {
  const rule = layout?.scatter.get(name)
  let shapes: readonly Shape[]
  let parts: readonly Uint8Array[] | null
  if (rule === undefined) {
    const rowCounts = requests.map((request) => request.inputs[0]?.shape[0] ?? 0)
    const rest = shape.slice(1)
    shapes = rowCounts.map((rows) => [rows, ...rest])
    parts = splitRows(bytes, dataType, shape, rowCounts)
    if (parts === null) {
      const rows = rowCounts.reduce((sum, count) => sum + count, 0)
      return `must have ${rows} rows, one per row of the batch, got shape ${shapeText(shape)}`
    }
  } else {
    shapes = requests.map((request) => scatteredShape(rule, request))
    const counts = shapes.map(elementCount)
    parts = splitElements(bytes, dataType, counts)
    if (parts === null) {
      const wanted = counts.reduce((sum, count) => sum + count, 0)
      return `must have ${wanted} elements, as many as the shapes of input '${rule.source}' say, got shape ${shapeText(shape)}`
    }
  }
  return parts.map((part, i) => new Tensor(name, dataType, shapes[i] as Shape, part))
}

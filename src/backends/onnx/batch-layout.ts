// The layout of a batch as one tensor per input: ragged inputs, inputs made from the shapes of the batch
// (`batch_input`), and outputs that are split by the shape of an input (`batch_output`). Triton's rules.

import { elementCount, type Shape } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { BatchInput, BatchInputKind, ModelConfig } from '../../config/model-config.ts'

/** The elements of an output that belong to one request. Their shape follows the shape of an input. */
type ScatterRule = {
  readonly source: string
  /** With the batch dimension. A -1 stands for the size of the same dimension of the source. */
  readonly shape: Shape
}

export type BatchLayout = {
  /** Inputs that the model gets as one long row: the elements of all requests, one request after the other. */
  readonly raggedInputs: ReadonlySet<string>
  readonly batchInputs: readonly BatchInput[]
  readonly scatter: ReadonlyMap<string, ScatterRule>
}

/** Null for a model with none of these settings, as nearly every model. */
export function batchLayoutOf(config: ModelConfig): BatchLayout | null {
  const isBatching = config.maxBatchSize > 0
  const ragged = config.input.filter((input) => input.allowRaggedBatch).map((input) => input.name)
  if (ragged.length === 0 && config.batchInput.length === 0 && config.batchOutput.length === 0) return null
  const scatter = new Map<string, ScatterRule>()
  for (const { targetName, sourceInput } of config.batchOutput) {
    for (const name of targetName) {
      const output = config.output.find((each) => each.name === name)
      const dims = output?.reshape?.shape ?? output?.dims ?? []
      scatter.set(name, { source: sourceInput[0] ?? '', shape: isBatching ? [-1, ...dims] : dims })
    }
  }
  return { raggedInputs: new Set(ragged), batchInputs: config.batchInput, scatter }
}

/** One long row of all elements, in the pieces of the requests. */
export function raggedParts(
  name: string,
  requests: readonly InferenceRequest[],
): { readonly shape: Shape; readonly parts: readonly Uint8Array[] } {
  const sources = requests.map((request) => sourceOf(request, name))
  let elements = 0
  for (const { shape } of sources) elements += elementCount(shape)
  return { shape: [elements], parts: sources.map(({ bytes }) => bytes) }
}

/** The inputs that the server adds to the clients' inputs; each target name gets the same tensor. Once per batch. */
export function batchInputTensors(layout: BatchLayout, requests: readonly InferenceRequest[]): Tensor[] {
  return layout.batchInputs.flatMap(({ kind, dataType, targetName, sourceInput }) => {
    const shapes = requests.map((request) => sourceOf(request, sourceInput[0] ?? '').shape)
    const { shape, values } = contentOf[kind](shapes)
    const isFloat = dataType === 'TYPE_FP32'
    const array = isFloat ? Float32Array.from(values) : Int32Array.from(values)
    const bytes = new Uint8Array(array.buffer)
    return targetName.map((name) => new Tensor(name, isFloat ? 'FP32' : 'INT32', shape, bytes))
  })
}

/** The shape of one request's part of a scattered output. */
export function scatteredShape({ source, shape }: ScatterRule, request: InferenceRequest): Shape {
  const from = sourceOf(request, source).shape
  return shape.map((size, axis) => (size === -1 ? (from[axis] ?? 1) : size))
}

type Content = { readonly shape: Shape; readonly values: ArrayLike<number> }

/** Computes the content from the shapes of one input, request by request, batch dimension included. */
const contentOf: Readonly<Record<BatchInputKind, (shapes: readonly Shape[]) => Content>> = {
  BATCH_ELEMENT_COUNT: (shapes) => row(shapes.map(elementCount)),
  BATCH_ACCUMULATED_ELEMENT_COUNT: (shapes) => row(runningSums(shapes)),
  BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO: (shapes) => row([0, ...runningSums(shapes)]),
  // The model reads only the length of this tensor. Triton does not set the elements; here they are zeros.
  BATCH_MAX_ELEMENT_COUNT_AS_SHAPE: (shapes) => row(new Uint8Array(Math.max(...shapes.map(elementCount)))),
  BATCH_ITEM_SHAPE: (shapes) => {
    const values = itemShapes(shapes)
    const rank = (shapes[0]?.length ?? 1) - 1
    return { shape: [rank === 0 ? 0 : values.length / rank, rank], values }
  },
  BATCH_ITEM_SHAPE_FLATTEN: (shapes) => row(itemShapes(shapes)),
}

const row = (values: ArrayLike<number>): Content => ({ shape: [values.length], values })

function runningSums(shapes: readonly Shape[]): number[] {
  let sum = 0
  return shapes.map((shape) => (sum += elementCount(shape)))
}

/** The shape of each row, without the batch dimension. */
const itemShapes = (shapes: readonly Shape[]): number[] =>
  shapes.flatMap((shape) => Array.from({ length: shape[0] ?? 0 }, () => shape.slice(1)).flat())

const absent = (name: string): Tensor => new Tensor(name, 'FP32', [0], new Uint8Array(0))

/** An optional input that a request left out has no elements. */
function sourceOf(request: InferenceRequest, name: string): Tensor {
  for (const input of request.inputs) if (input.name === name) return input
  return absent(name)
}

// Fills a batch up to one of the sizes that its model runs with. The rows that are added are cut off the outputs.

import { filledRows } from '../gpu-batch-sizes.ts'
import type { OnnxTensorSpec, RunInput, RunRequest } from '../onnx-session.ts'
import { outputSlot, type OutputSlot, type PlanContext } from './plan-slots.ts'

export type Filling = {
  /** Of the batch, without and with the rows that fill it up; both 1 where nothing is filled up. */
  readonly rows: number
  readonly filled: number
  /** The rows of the run; 1 where the model has none. */
  readonly batchRows: number
  /** The inputs with the shapes of the run; empty: as they came. */
  readonly given: readonly (RunInput | null)[]
  readonly slots: readonly OutputSlot[]
}

/** A batch is filled up when all inputs have its rows, and all outputs are known to have them too. */
export function fillBatch(context: PlanContext, { inputs, outputs }: RunRequest, sizes: readonly number[]): Filling {
  const slotsFor = (given: RunRequest['inputs']): OutputSlot[] =>
    outputs.map((index) => outputSlot(context, context.outputs[index] as OnnxTensorSpec, given, true, 0))
  const rows = sizes.length === 0 ? 0 : (inputs.find((input) => input !== null)?.shape[0] ?? 0)
  const filled = filledRows(sizes, rows)
  if (rows > 0 && filled > rows && inputs.every((input, i) => isOfRows(input, context.inputs[i], rows))) {
    const given = inputs.map((input) => input && { shape: [filled, ...input.shape.slice(1)], bytes: noBytes })
    const slots = slotsFor(given)
    if (slots.every(({ shape, spec }) => shape?.[0] === filled && spec.shape?.[0] === -1)) {
      return { rows, filled, batchRows: filled, given, slots }
    }
  }
  return { rows: 1, filled: 1, batchRows: Math.max(1, rows), given: [], slots: slotsFor(inputs) }
}

const isOfRows = (input: RunInput | null, spec: OnnxTensorSpec | undefined, rows: number): boolean =>
  input === null || (input.shape[0] === rows && spec?.shape?.[0] === -1 && spec.dataType !== 'BYTES')

export const withoutFilling = (
  { shape, byteLength }: OutputSlot,
  rows: number,
  filled: number,
): Pick<OutputSlot, 'shape' | 'byteLength'> =>
  rows === filled || shape === null
    ? { shape, byteLength }
    : { shape: [rows, ...shape.slice(1)], byteLength: (byteLength / filled) * rows }

const noBytes = new Uint8Array(0)

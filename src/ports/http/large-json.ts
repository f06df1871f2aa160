// Decides which JSON is too large for the main thread, and copies the outputs of an answer for a thread.

import { takeTurn, waitTurn } from '../../base/run-in-slices.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import { elementBytes } from '../../tensor/data-type.ts'
import type { Shape } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { OutputSelection } from '../../protocol/parsed-infer.ts'
import type { PrintedOutputs } from '../../protocol/infer-response-writer.ts'

/**
 * A thread reads JSON text above this size. Reading costs 3-20 ms per MiB, and 63 ms for the worst possible text. So
 * JSON never blocks the main thread for more than 16 ms (docs/internals/json-tokenizer.md).
 */
export const largeRequestJsonBytes = 256 * 1024

/** A raw body of one string is copied to add its length. Above this size a thread copies: 64 MiB take 30-60 ms. */
const largeRawStringBytes = 8 * 1024 * 1024

/** A thread writes outputs above this size: printing floats costs about 75 ms per MiB. */
const largeResponseJsonBytes = 128 * 1024

/** Outputs below this size are always quick to print, also with classification. */
const alwaysSmallBytes = 2048

/** Ranking and printing one class costs as much as printing so many bytes of floats. */
const bytesPerClass = 64

/** HOT: once per request. */
export function isLargeRequest(bodyBytes: number, headerLength: number | null, signature: ModelSignature): boolean {
  if ((headerLength ?? bodyBytes) > largeRequestJsonBytes) return true
  return headerLength === 0 && bodyBytes > largeRawStringBytes && signature.inputs[0]?.dataType === 'BYTES'
}

/** HOT: once per answer. */
export function isLargeAnswer(outputs: readonly Tensor[], context: PrintedOutputs): boolean {
  let bytes = 0
  for (let i = 0; i < outputs.length; i++) bytes += (outputs[i] as Tensor).bytes.length
  return bytes > alwaysSmallBytes && jsonBytes(outputs, context) > largeResponseJsonBytes
}

/** The same for nested lists. Short ones cost as much as long ones, so they are large beyond a number of elements, too. HOT. */
export function isLargeListAnswer(outputs: readonly Tensor[], context: PrintedOutputs, mostElements: number): boolean {
  let elements = 0
  for (let i = 0; i < outputs.length; i++) elements += printedCount((outputs[i] as Tensor).shape)
  return elements > mostElements || isLargeAnswer(outputs, context)
}

/** Elements, and the lists that have none: ten million empty lists are thirty megabytes of text. */
function printedCount(shape: Shape): number {
  let count = 1
  for (let i = 0; i < shape.length; i++) count *= Math.max(1, shape[i] as number)
  return count
}

/** Bytes of the outputs that are printed; each class counts as `bytesPerClass`. */
function jsonBytes(outputs: readonly Tensor[], context: PrintedOutputs): number {
  let bytes = 0
  for (const output of outputs) {
    const selection = context.outputs.find(({ name }) => name === output.name)
    if (isLeftOut(selection, context)) continue
    const classCount = selection?.classificationCount ?? 0
    if (classCount > 0) bytes += output.bytes.length + bytesPerClass * listedClasses(output, classCount, context)
    else if (!(selection?.isBinary ?? context.binaryOutputDefault)) bytes += output.bytes.length
  }
  return bytes
}

/** The output was not asked for, or is written into shared memory. */
const isLeftOut = (selection: OutputSelection | undefined, context: PrintedOutputs): boolean =>
  selection === undefined ? context.outputs.length > 0 : selection.sharedMemory !== null

function listedClasses({ shape, dataType, bytes }: Tensor, count: number, context: PrintedOutputs): number {
  const rows = context.signature.isBatching ? (shape[0] ?? 1) : 1
  return Math.min(count * rows, bytes.length / Math.max(1, elementBytes[dataType]))
}

/** Bytes that are copied in one turn of the event loop: about three milliseconds. */
const sliceBytes = 8 * 1024 * 1024

/**
 * Copies each output into a buffer of its own, which can be transferred to a thread. The outputs themselves cannot:
 * they may lie in native or shared memory, or be views on buffers that others use. Bytes that are not printed are not
 * copied.
 */
export function copyOutputs(
  outputs: readonly Tensor[],
  context: PrintedOutputs,
  done: (copies: Tensor[]) => void,
): void {
  const copies = outputs.map((output) => {
    const selection = context.outputs.find(({ name }) => name === output.name)
    const bytes = new Uint8Array(isLeftOut(selection, context) ? 0 : output.bytes.length)
    return new Tensor(output.name, output.dataType, output.shape, bytes)
  })
  let at = 0
  let offset = 0
  const copySlice = (): void => {
    let left = sliceBytes
    for (; at < copies.length; at++, offset = 0) {
      const target = (copies[at] as Tensor).bytes
      const end = Math.min(target.length, offset + left)
      target.set((outputs[at] as Tensor).bytes.subarray(offset, end), offset)
      left -= end - offset
      offset = end
      if (offset < target.length) {
        waitTurn(copySlice)
        return
      }
    }
    done(copies)
  }
  takeTurn(copySlice)
}

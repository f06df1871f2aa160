// HOT: a Batch as one frame. Small tensors are copied into it, large ones into shared memory; one allocation.

import { ServerError } from '../../base/server-error.ts'
import { deviceReferenceOf } from '../../cuda/device-bytes.ts'
import { leftGpu } from '../../model/left-gpu.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { Parameters } from '../../model/parameters.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import type { RequestTrace } from '../../model/inference-request.ts'
import {
  align8,
  align16,
  headerBytes,
  named,
  outputPlaceBytes,
  requestFlags,
  requestHeadBytes,
  toWorker,
  writeHeader,
  writeUint64,
} from './frames.ts'
import { frameBytes, recordBytes, TensorRecordWriter, writeReference } from './tensor-records.ts'
import type { TensorRegions } from './tensor-regions.ts'

const frameLimitBytes = 0x7fff_fff0
/** The bytes of the length before a request's trace context. */
const traceLengthBytes = 2

/** `blocks` are the blocks of shared memory that hold inputs. The worker gives the blocks back when it has used them. */
export type ExecuteFrame = { readonly frame: Buffer; readonly blocks: readonly number[] }

/** Throws ServerError when the batch does not fit. Then no block stays taken. */
export function encodeExecute(
  batchId: number,
  requests: readonly InferenceRequest[],
  firstHandle: number,
  signature: ModelSignature,
  regions: TensorRegions | null,
  opensDevices = false,
): ExecuteFrame {
  // The answers of a decoupled model come one after the other, and each must be read before the next one is written.
  const hasPlaces = opensDevices && !signature.isDecoupled
  let headBytes = headerBytes
  let dataBytes = 0
  const parameterTexts: string[] = []
  for (const request of requests) {
    if (!opensDevices && request.inputDevice !== null) throw leftGpu(request)
    const parameters = request.parameters.size === 0 ? '' : parametersJson(request.parameters)
    parameterTexts.push(parameters)
    headBytes += requestBytes(request, parameters, signature)
    if (hasPlaces) headBytes += placesBytes(request)
    for (const tensor of request.inputs) dataBytes += frameBytes(tensor, regions, opensDevices)
  }
  const total = align16(align16(headBytes) + dataBytes)
  if (total > frameLimitBytes) {
    throw new ServerError('INVALID_ARG', `a batch of ${total} bytes is more than a model can be given at once`)
  }
  const frame = Buffer.allocUnsafe(total)
  writeHeader(frame, toWorker.execute, requests.length, batchId)
  const writer = new TensorRecordWriter(frame, align16(headBytes), regions, opensDevices)
  try {
    let offset = headerBytes
    for (let i = 0; i < requests.length; i++) {
      const request = requests[i] as InferenceRequest
      const start = offset
      offset = writeRequest(frame, start, request, firstHandle + i, parameterTexts[i] as string, signature, writer)
      if (hasPlaces) offset = writePlaces(frame, start, offset, request, signature)
    }
  } catch (reason) {
    for (const block of writer.stored) regions?.freeInput(block)
    throw reason
  }
  return { frame, blocks: writer.stored }
}

function requestBytes(request: InferenceRequest, parameters: string, signature: ModelSignature): number {
  let bytes = requestHeadBytes
  for (const tensor of request.inputs) bytes += recordBytes(tensor, !signature.inputByName.has(tensor.name))
  if (typeof request.correlationId === 'string') bytes += Buffer.byteLength(request.correlationId)
  if (request.id !== '') bytes += Buffer.byteLength(request.id)
  if (parameters !== '') bytes += Buffer.byteLength(parameters)
  const context = request.trace === null ? '' : contextJson(request.trace)
  if (context !== '') bytes += traceLengthBytes + Buffer.byteLength(context)
  return align8(bytes + 2 * request.requestedOutputs.length)
}

function writeRequest(
  frame: Buffer,
  start: number,
  request: InferenceRequest,
  handle: number,
  parameters: string,
  signature: ModelSignature,
  writer: TensorRecordWriter,
): number {
  const { correlationId, requestedOutputs } = request
  const isText = typeof correlationId === 'string'
  let flags = 0
  if (request.isSequenceStart) flags |= requestFlags.sequenceStart
  if (request.isSequenceEnd) flags |= requestFlags.sequenceEnd
  if (isText) flags |= requestFlags.textCorrelation
  if (request.isCancelled) flags |= requestFlags.isCancelled
  const context = request.trace === null ? '' : contextJson(request.trace)
  if (context !== '') flags |= requestFlags.traced
  if (requestedOutputs.length === 0) flags |= requestFlags.allOutputs
  writeUint64(frame, handle, start)
  writeBigUint64(frame, typeof correlationId === 'bigint' ? correlationId : 0n, start + 8)
  writeBigUint64(frame, request.timeoutUs, start + 16)
  frame.writeUInt32LE(flags, start + 24)
  frame.writeUInt16LE(request.inputs.length, start + 32)
  frame.writeUInt16LE(requestedOutputs.length, start + 34)
  let offset = start + requestHeadBytes
  for (const tensor of request.inputs) {
    offset = writer.write(tensor, offset, signature.inputByName.get(tensor.name)?.index ?? named)
  }
  for (const name of requestedOutputs) {
    // Requests are validated before they come here, so the name is in the table.
    frame.writeUInt16LE(signature.outputByName.get(name)?.index ?? 0, offset)
    offset += 2
  }
  const idBytes = request.id === '' ? 0 : frame.write(request.id, offset, 'utf8')
  offset += idBytes
  const textBytes = isText ? frame.write(correlationId, offset, 'utf8') : 0
  offset += textBytes
  const parameterBytes = parameters === '' ? 0 : frame.write(parameters, offset, 'utf8')
  offset += parameterBytes
  if (context !== '') {
    const contextBytes = frame.write(context, offset + traceLengthBytes, 'utf8')
    frame.writeUInt16LE(contextBytes, offset)
    offset += traceLengthBytes + contextBytes
  }
  frame.writeUInt16LE(idBytes, start + 28)
  frame.writeUInt16LE(textBytes, start + 30)
  frame.writeUInt32LE(parameterBytes, start + 36)
  return align8(offset)
}

const placesBytes = ({ outputPlaces }: InferenceRequest): number =>
  outputPlaces === null ? 0 : 8 + outputPlaces.size * outputPlaceBytes

/** Behind the request: where its client wants outputs on a GPU. */
function writePlaces(
  frame: Buffer,
  start: number,
  end: number,
  { outputPlaces }: InferenceRequest,
  signature: ModelSignature,
): number {
  if (outputPlaces === null) return end
  let offset = end + 8
  for (const [name, bytes] of outputPlaces) {
    const reference = deviceReferenceOf(bytes)
    const index = signature.outputByName.get(name)?.index
    if (reference === null || index === undefined) continue
    writeUint64(frame, index, offset)
    writeUint64(frame, bytes.length, offset + 8)
    writeReference(frame, reference, offset + 16)
    offset += outputPlaceBytes
  }
  writeUint64(frame, (offset - end - 8) / outputPlaceBytes, end)
  frame.writeUInt32LE(frame.readUInt32LE(start + 24) | requestFlags.placed, start + 24)
  return offset
}

/** Node takes long for a bigint, and nearly all of these are 0. */
function writeBigUint64(frame: Buffer, value: bigint, offset: number): void {
  if (value === 0n) writeUint64(frame, 0, offset)
  else frame.writeBigUInt64LE(BigInt.asUintN(64, value), offset)
}

/** The trace context as Triton's models read it; '' for a trace that cannot be joined. */
function contextJson({ context }: RequestTrace): string {
  if (context === null) return ''
  const { traceparent, tracestate } = context
  return JSON.stringify(tracestate === '' ? { traceparent } : { traceparent, tracestate })
}

/** `{"a":1,"b":1.5}`: whole numbers and doubles stay apart, as the model reads them. */
export function parametersJson(parameters: Parameters): string {
  const parts: string[] = []
  for (const [key, value] of parameters) parts.push(`${JSON.stringify(key)}:${valueJson(value)}`)
  return `{${parts.join(',')}}`
}

function valueJson(value: string | bigint | boolean | number): string {
  if (typeof value === 'bigint') return String(value)
  if (typeof value !== 'number') return JSON.stringify(value)
  if (Object.is(value, -0)) return '-0.0'
  // NaN and infinities are written as Python writes them: `NaN`, `-Infinity`.
  return Number.isInteger(value) && Math.abs(value) < 1e21 ? value.toFixed(1) : String(value)
}

/** The reverse: a number written without point or exponent is an integer. */
export function parseParameters(text: string): Parameters {
  const parsed = JSON.parse(finiteJson(text), (_key, value: unknown, context?: { source?: string }) => {
    if (typeof value !== 'number' || context?.source === undefined) return value
    if (context.source === nanSource) return NaN
    return /^-?\d+$/.test(context.source) ? BigInt(context.source) : value
  }) as Record<string, string | bigint | boolean | number>
  return new Map(Object.entries(parsed))
}

/** Nobody writes a number like that. */
const nanSource = '-0e999'

/**
 * JSON has no NaN and no infinities, and Python writes them all the same. `1e999` is read as an infinity. Texts are passed over by hand:
 * a pattern for them runs out of its stack at some megabytes, and a model may answer with what its client sent.
 */
function finiteJson(text: string): string {
  if (!/NaN|Infinity/.test(text)) return text
  let finite = ''
  let from = 0
  const words = /"|NaN|Infinity/g
  for (let found = words.exec(text); found !== null; found = words.exec(text)) {
    const [word] = found
    if (word === '"') words.lastIndex = endOfJsonText(text, found.index)
    else {
      finite += text.slice(from, found.index) + (word === 'NaN' ? nanSource : '1e999')
      from = words.lastIndex
    }
  }
  return finite + text.slice(from)
}

/** The place behind the quote that ends the text that begins at `start`. */
function endOfJsonText(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let before = at
    while (text[before - 1] === '\\') before--
    if ((at - before) % 2 === 0) return at + 1
  }
  return text.length
}

// A response inside a frame, in both directions: a model's answer to the server, and a called model's answer.

import { errorCodes, ServerError, type ErrorCode } from '../../base/server-error.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import { parametersJson, parseParameters } from './execute-frame.ts'
import {
  align8,
  align16,
  headerBytes,
  named,
  readUint64,
  responseFlags,
  responseHeadBytes,
  toWorker,
  writeHeader,
  writeUint64,
} from './frames.ts'
import { isInline, recordBytes, TensorRecordWriter, type TensorRecordReader } from './tensor-records.ts'
import type { TensorRegions } from './tensor-regions.ts'

/** They are read on the main thread, and a model may repeat in both what its client sent. The rest of an error is cut off. */
export const mostErrorBytes = 64 * 1024
const mostParameterBytes = 4 * 1024 * 1024

export type ResponseRecord = { readonly handle: number; readonly response: InferenceResponse; readonly end: number }

/** `free` gets the blocks of the output region once the response is released. `placesOf`: where the request wants outputs on a GPU. */
export function readResponse(
  frame: Buffer,
  start: number,
  reader: TensorRecordReader,
  free: (blocks: readonly number[]) => void,
  placesOf: (handle: number) => ReadonlyMap<string, Uint8Array> | null = noPlaces,
): ResponseRecord {
  const handle = readUint64(frame, start)
  const places = placesOf(handle)
  const outputCount = frame.readUInt16LE(start + 8)
  const flags = frame[start + 10] as number
  const textBytes = frame.readUInt32LE(start + 12)
  const isFinal = (flags & responseFlags.final) !== 0
  let offset = start + responseHeadBytes
  const outputs = []
  reader.blocks = null
  for (let i = 0; i < outputCount; i++) {
    outputs.push(reader.read(frame, offset, places))
    offset = reader.end
  }
  const blocks = reader.blocks as number[] | null
  const end = offset + align8(textBytes)
  const textOf = (mostBytes: number): string => frame.toString('utf8', offset, offset + Math.min(textBytes, mostBytes))
  if ((flags & responseFlags.error) !== 0) {
    const text = textOf(mostErrorBytes)
    const code: ErrorCode = errorCodes[frame[start + 11] as number] ?? 'INTERNAL'
    return { handle, response: InferenceResponse.errorAnswer(ServerError.withoutStack(code, text), isFinal), end }
  }
  if ((flags & responseFlags.flagOnly) !== 0) return { handle, response: InferenceResponse.finalFlag(), end }
  const hasParameters = (flags & responseFlags.parameters) !== 0
  if (hasParameters && textBytes > mostParameterBytes) {
    if (blocks !== null) free(blocks)
    return { handle, response: InferenceResponse.failure(parametersTooLarge(textBytes), isFinal), end }
  }
  const parameters = hasParameters ? parseParameters(textOf(textBytes)) : null
  const release = blocks === null ? null : () => free(blocks)
  return { handle, response: InferenceResponse.of(outputs, { parameters, isFinal, release }), end }
}

const noPlaces = (): null => null

const parametersTooLarge = (bytes: number): ServerError =>
  ServerError.withoutStack(
    'INTERNAL',
    `the parameters of the answer have ${bytes} bytes, the maximum is ${mostParameterBytes}: use an output`,
  )

/** An answer to a call that the model made. Its outputs are copied, so the response may be released afterwards. */
export function encodeBlsResponse(
  callId: number,
  response: InferenceResponse,
  errorText: string | null,
  regions: TensorRegions | null,
): Buffer {
  let flags = response.isFinal ? responseFlags.final : 0
  let text = ''
  if (errorText !== null) {
    flags |= responseFlags.error
    text = errorText
  } else if (response.isFlagOnly) {
    flags |= responseFlags.flagOnly
  } else if (response.parameters !== null && response.parameters.size > 0) {
    flags |= responseFlags.parameters
    text = parametersJson(response.parameters)
  }
  const outputs = errorText === null ? response.outputs : []
  const textBytes = Buffer.byteLength(text)
  let headBytes = headerBytes + responseHeadBytes + align8(textBytes)
  let dataBytes = 0
  for (const tensor of outputs) {
    headBytes += recordBytes(tensor, true)
    if (isInline(tensor, regions)) dataBytes += align16(tensor.bytes.length)
  }
  const frame = Buffer.alloc(align16(align16(headBytes) + dataBytes))
  writeHeader(frame, toWorker.blsResponse, 0, callId)
  writeUint64(frame, callId, headerBytes)
  frame.writeUInt16LE(outputs.length, headerBytes + 8)
  frame[headerBytes + 10] = flags
  // As in Triton 2.51 the calling model gets the errors of a called model as INTERNAL. It must know its own cancel() again.
  frame[headerBytes + 11] = errorCodes.indexOf(response.error?.code === 'CANCELLED' ? 'CANCELLED' : 'INTERNAL')
  frame.writeUInt32LE(textBytes, headerBytes + 12)
  const writer = new TensorRecordWriter(frame, align16(headBytes), regions)
  let offset = headerBytes + responseHeadBytes
  for (const tensor of outputs) offset = writer.write(tensor, offset, named)
  frame.write(text, offset, 'utf8')
  return frame
}

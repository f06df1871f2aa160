// An inference response → one JSON object of Triton's generate endpoints: parameters and outputs side by side, by name.

import type { InferenceResponse } from '../model/inference-response.ts'
import type { ParameterValue } from '../model/parameters.ts'
import { elementCount } from '../tensor/shape.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { maxNumberBytes, writeDouble } from './json-number-writer.ts'
import { JsonTextWriter } from './json-text-writer.ts'
import { writeTensorData } from './tensor-data-writer.ts'

export type GenerateContext = {
  readonly modelName: string
  /** The version that answered. */
  readonly modelVersion: string
  /** '' is not written. */
  readonly id: string
}

export const eventStreamType = 'text/event-stream; charset=utf-8'

const eventStart = 'data: '
const eventEnd = '\n\n'

/** Throws when an output cannot be written as JSON. */
export function encodeGenerateResponse(response: InferenceResponse, context: GenerateContext): Buffer {
  const writer = new JsonTextWriter()
  writeObject(writer, response, context)
  return writer.finish()
}

/** The same as one server-sent event. */
export function encodeGenerateEvent(response: InferenceResponse, context: GenerateContext): Buffer {
  const writer = new JsonTextWriter()
  writer.raw(eventStart)
  writeObject(writer, response, context)
  writer.raw(eventEnd)
  return writer.finish()
}

export function encodeErrorEvent(message: string): Buffer {
  const writer = new JsonTextWriter(message.length + 64)
  writer.raw(`${eventStart}{"error":`)
  writer.string(message)
  writer.raw(`}${eventEnd}`)
  return writer.finish()
}

/** Keys are sorted by bytes. Of equal names the first is used, in the order id and model, parameters, outputs. */
function writeObject(writer: JsonTextWriter, response: InferenceResponse, context: GenerateContext): void {
  const entries = new Map<string, ParameterValue | Tensor>()
  if (context.id !== '') entries.set('id', context.id)
  entries.set('model_name', context.modelName)
  entries.set('model_version', context.modelVersion)
  if (response.parameters !== null) {
    for (const [name, value] of response.parameters) if (!entries.has(name)) entries.set(name, value)
  }
  for (const output of response.outputs) if (!entries.has(output.name)) entries.set(output.name, output)
  const names = [...entries.keys()].sort()
  writer.raw('{')
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string
    if (i > 0) writer.raw(',')
    writer.string(name)
    writer.raw(':')
    writeEntry(writer, entries.get(name) as ParameterValue | Tensor)
  }
  writer.raw('}')
}

function writeEntry(writer: JsonTextWriter, entry: ParameterValue | Tensor): void {
  if (typeof entry === 'string') writer.string(entry)
  else if (typeof entry === 'number') {
    writer.reserve(maxNumberBytes)
    writer.length = writeDouble(writer.bytes, writer.length, entry)
  } else if (typeof entry === 'object') writeTensor(writer, entry)
  else writer.raw(String(entry))
}

/** Writes a flat array, or the element itself when there is only one. */
function writeTensor(writer: JsonTextWriter, tensor: Tensor): void {
  const start = writer.length
  writeTensorData(writer, tensor)
  if (elementCount(tensor.shape) !== 1) return
  writer.bytes.copyWithin(start, start + 1, writer.length - 1)
  writer.length -= 2
}

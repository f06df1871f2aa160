// Data from files: perf_analyzer's JSON, or a folder with the raw bytes of each input.

import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { messageOf } from '../base/server-error.ts'
import { parseWireJson } from '../client/http/wire-json.ts'
import { bytesElements, encodeTensorData, type TensorData } from '../client/tensor-data.ts'
import { elementBytes, type DataType } from '../tensor/data-type.ts'
import { elementCount, shapeText, type Shape } from '../tensor/shape.ts'
import { closedShape, fitsModel } from './generated-input.ts'
import { InputDataError, type InputStep, type InputStreams, type StepTensor } from './input-step.ts'
import type { ModelInput, ModelUnderTest } from './model-under-test.ts'

type Shapes = ReadonlyMap<string, Shape>

/** Each nested list is a stream. Steps outside of nested lists form one stream, over all files. */
export function readInputFiles(paths: readonly string[], model: ModelUnderTest, shapes: Shapes): InputStreams {
  const flat: InputStep[] = []
  const streams: InputStep[][] = []
  for (const file of paths) {
    if (statSync(file).isDirectory()) flat.push(folderStep(file, model, shapes))
    else {
      const read = jsonStreams(file, model, shapes)
      // One by one: a function takes fewer arguments than a file may have steps.
      if (read.isFlat) for (const step of read.streams.flat()) flat.push(step)
      else for (const steps of read.streams) streams.push(steps)
    }
  }
  return flat.length === 0 ? streams : [flat, ...streams]
}

/** One file per input, and one per output that is to be checked. */
function folderStep(folder: string, { inputs, outputs }: ModelUnderTest, shapes: Shapes): InputStep {
  const there = new Set(readdirSync(folder))
  const known = new Set([...inputs, ...outputs].map(({ name }) => name))
  const unknown = [...there].find((name) => !known.has(name))
  if (unknown !== undefined) {
    throw new InputDataError(
      `Provided data file '${unknown}' does not correspond to a valid model input or output (${folder}); it has ${[...known].join(', ')}`,
    )
  }
  const tensors = inputs
    .filter((input) => !input.isOptional || there.has(input.name))
    .map((input): StepTensor => {
      if (!there.has(input.name)) throw new InputDataError(`${folder} has no file '${input.name}' for that input`)
      const file = path.join(folder, input.name)
      return tensorOf(input, closedShape(input, shapes), fileBytes(file, input), file)
    })
  const expected = outputs
    .filter(({ name }) => there.has(name))
    .map((output): StepTensor => ({ ...output, shape: [], bytes: fileBytes(path.join(folder, output.name), output) }))
  return { inputs: tensors, expected: expected.length === 0 ? null : expected }
}

/** Raw bytes; strings are text, one to a line. */
function fileBytes(
  file: string,
  { name, dataType }: { readonly name: string; readonly dataType: DataType },
): Uint8Array {
  const bytes = readFileSync(file)
  if (bytes.length === 0) throw new InputDataError(`file '${file}' is empty`)
  if (dataType !== 'BYTES') return bytes
  const lines = bytes.toString('latin1').replace(/\n$/, '').split('\n')
  return encodeTensorData(
    name,
    lines.map((line) => Buffer.from(line, 'latin1')),
    'BYTES',
  ).bytes
}

type JsonStep = Readonly<Record<string, unknown>>

function jsonStreams(
  file: string,
  model: ModelUnderTest,
  shapes: Shapes,
): { readonly isFlat: boolean; readonly streams: InputStep[][] } {
  let document: { data?: unknown; validation_data?: unknown }
  try {
    document = (parseWireJson(readFileSync(file, 'utf8')) ?? {}) as typeof document
  } catch (reason) {
    throw new InputDataError(
      `failed to parse the specified json file for reading provided data: ${file}: ${messageOf(reason)}`,
    )
  }
  if (!Array.isArray(document.data) || document.data.length === 0) {
    throw new InputDataError(`The json file doesn't contain data field: ${file}`)
  }
  const data = streamsOf(document.data, file)
  const validation = document.validation_data === undefined ? null : streamsOf(document.validation_data, file)
  const lengths = (streams: readonly (readonly unknown[])[]): string => streams.map((steps) => steps.length).join()
  if (validation !== null && lengths(validation) !== lengths(data)) {
    throw new InputDataError(`The 'validation_data' field doesn't align with 'data' field in the json file: ${file}`)
  }
  const streams = data.map((steps, stream) =>
    steps.map((step, at): InputStep => {
      const wanted = validation?.[stream]?.[at]
      const where = `${file}, stream ${stream}, step ${at}`
      return {
        inputs: inputTensors(step, model.inputs, shapes, where),
        expected: wanted === undefined ? null : expectedTensors(wanted, model, where),
      }
    }),
  )
  return { isFlat: document.data.every(isStep), streams }
}

const isStep = (value: unknown): value is JsonStep =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** `[{…}, {…}]` is one stream, `[[{…}], [{…}]]` are several; both may be mixed. */
function streamsOf(data: unknown, file: string): JsonStep[][] {
  if (!Array.isArray(data)) throw new InputDataError(`'data' and 'validation_data' must be arrays in ${file}`)
  const streams: JsonStep[][] = data.every(isStep) ? [data] : data.map((each) => (isStep(each) ? [each] : each)) // prettier-ignore
  for (const steps of streams) {
    if (!Array.isArray(steps) || steps.length === 0 || !steps.every(isStep)) {
      throw new InputDataError(`every stream must be an array of objects with the inputs by name: ${file}`)
    }
  }
  return streams
}

/** perf_analyzer's own files name the model in each step. */
const modelKey = 'model'

function inputTensors(step: JsonStep, inputs: readonly ModelInput[], shapes: Shapes, where: string): StepTensor[] {
  const known = new Set(inputs.map((input) => input.name))
  const unknown = Object.keys(step).find((name) => !known.has(name) && name !== modelKey)
  if (unknown !== undefined) {
    throw new InputDataError(
      `The input '${unknown}' is not found in the model (${where}); it has ${[...known].join(', ')}`,
    )
  }
  return inputs
    .filter((input) => !input.isOptional || step[input.name] !== undefined)
    .map((input) => {
      const value = step[input.name]
      if (value === undefined) throw new InputDataError(`missing tensor '${input.name}' (${where})`)
      const { content, shape } = contentOf(value, input.name, where)
      if (shape !== null && !fitsModel(shape, input.shape)) {
        throw new InputDataError(
          `The supplied shape of ${shapeText(shape)} for input "${input.name}" is incompatible with the model's input shape of ${shapeText(input.shape)} (${where})`,
        )
      }
      return tensorOf(input, shape ?? closedShape(input, shapes), bytesOf(input, content, where), where)
    })
}

function expectedTensors(step: JsonStep, { outputs }: ModelUnderTest, where: string): StepTensor[] {
  const given = Object.entries(step).filter(([name]) => name !== modelKey || outputs.some((each) => each.name === name))
  return given.map(([name, value]) => {
    const output = outputs.find((each) => each.name === name)
    if (output === undefined) {
      throw new InputDataError(`The output '${name}' is not found in the model (${where})`)
    }
    const { content, shape } = contentOf(value, name, where)
    const bytes = bytesOf(output, content, where)
    return { name, dataType: output.dataType, shape: shape ?? [], bytes }
  })
}

/** The content is plain values, `{ b64 }`, or `{ content }` with one of these and an optional shape. */
function contentOf(
  value: unknown,
  name: string,
  where: string,
): { readonly content: unknown; readonly shape: Shape | null } {
  if (!isStep(value)) return { content: value, shape: null }
  const { content, shape, b64 } = value
  if (content === undefined && b64 === undefined) {
    throw new InputDataError(`missing content field of '${name}' (${where})`)
  }
  const isShape = Array.isArray(shape) && shape.every((size) => Number.isSafeInteger(size) && size >= 0)
  if (shape !== undefined && !isShape) {
    throw new InputDataError(`the shape of '${name}' must be an array of whole numbers (${where})`)
  }
  return { content: b64 === undefined ? content : { b64 }, shape: isShape ? (shape as number[]) : null }
}

function bytesOf(
  tensor: { readonly name: string; readonly dataType: DataType },
  content: unknown,
  where: string,
): Uint8Array {
  const { name, dataType } = tensor
  if (isStep(content) && 'b64' in content) {
    if (typeof content['b64'] !== 'string') {
      throw new InputDataError(`the value of b64 field of '${name}' should be of type string (${where})`)
    }
    return Buffer.from(content['b64'], 'base64')
  }
  const values = (Array.isArray(content) ? content : [content]).flat(Infinity) as unknown[]
  try {
    return encodeTensorData(name, (dataType === 'BOOL' ? values.map(booleanOf) : values) as TensorData, dataType).bytes
  } catch (reason) {
    throw new InputDataError(`${messageOf(reason)} (${where})`)
  }
}

const booleanOf = (value: unknown): unknown => (value === 0 || value === 1 ? value === 1 : value)

function tensorOf(input: ModelInput, shape: Shape, bytes: Uint8Array, where: string): StepTensor {
  const { name, dataType } = input
  const count = elementCount(shape)
  const found = dataType === 'BYTES' ? stringCount(name, bytes, where) : bytes.length / elementBytes[dataType]
  if (found !== count) {
    throw new InputDataError(
      `mismatch in the data provided for '${name}': shape ${shapeText(shape)} of ${dataType} has ${count} elements, ` +
        `the data ${Number.isInteger(found) ? found : `${bytes.length} bytes`} (${where})`,
    )
  }
  return { name, dataType, shape, bytes }
}

function stringCount(name: string, bytes: Uint8Array, where: string): number {
  try {
    return bytesElements(name, bytes).length
  } catch (reason) {
    throw new InputDataError(`${messageOf(reason)} (${where})`)
  }
}

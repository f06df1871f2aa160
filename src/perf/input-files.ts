// Data from files: perf_analyzer's JSON, or a folder with the raw bytes of each input.

import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { messageOf } from '../base/server-error.ts'
import { parseWireJson } from '../client/http/wire-json.ts'
import { bytesElements, encodeTensorData, type TensorData } from '../client/tensor-data.ts'
import { elementBytes, type DataType } from '../tensor/data-type.ts'
import { elementCount, shapeText, type Shape } from '../tensor/shape.ts'
import { closedShape } from './generated-input.ts'
import { InputDataError, type InputStep, type InputStreams, type StepTensor } from './input-step.ts'
import type { ModelInput, ModelUnderTest } from './model-under-test.ts'

type Shapes = ReadonlyMap<string, Shape>

/** Streams of several files follow each other. */
export function readInputFiles(paths: readonly string[], model: ModelUnderTest, shapes: Shapes): InputStreams {
  return paths.flatMap((file) =>
    statSync(file).isDirectory() ? [[folderStep(file, model.inputs, shapes)]] : jsonStreams(file, model, shapes),
  )
}

function folderStep(folder: string, inputs: readonly ModelInput[], shapes: Shapes): InputStep {
  const there = new Set(readdirSync(folder))
  const tensors = inputs
    .filter((input) => !input.isOptional || there.has(input.name))
    .map((input): StepTensor => {
      if (!there.has(input.name)) throw new InputDataError(`${folder} has no file '${input.name}' for that input`)
      const bytes = readFileSync(path.join(folder, input.name))
      const shape = closedShape(input, shapes)
      return tensorOf(input, shape, bytes, path.join(folder, input.name))
    })
  return { inputs: tensors, expected: null }
}

type JsonTensor = unknown[] | string | number | boolean | { b64: string } | { content: unknown; shape?: number[] }
type JsonStep = Readonly<Record<string, JsonTensor>>

function jsonStreams(file: string, model: ModelUnderTest, shapes: Shapes): InputStep[][] {
  let document: { data?: unknown; validation_data?: unknown }
  try {
    document = parseWireJson(readFileSync(file, 'utf8')) as typeof document
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
  return data.map((steps, stream) =>
    steps.map((step, at) => {
      const wanted = validation?.[stream]?.[at]
      if (validation !== null && wanted === undefined) {
        throw new InputDataError(
          `The 'validation_data' field doesn't align with 'data' field in the json file: ${file}`,
        )
      }
      const where = `${file}, stream ${stream}, step ${at}`
      return {
        inputs: inputTensors(step, model.inputs, shapes, where),
        expected: wanted === undefined ? null : expectedTensors(wanted, model, where),
      }
    }),
  )
}

/** `[{…}, {…}]` is one stream, `[[{…}], [{…}]]` are several; both may be mixed. */
function streamsOf(data: unknown, file: string): JsonStep[][] {
  if (!Array.isArray(data)) throw new InputDataError(`'data' and 'validation_data' must be arrays in ${file}`)
  const isStep = (value: unknown): value is JsonStep =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  const streams: JsonStep[][] = data.every(isStep) ? [data] : data.map((each) => (isStep(each) ? [each] : each)) // prettier-ignore
  for (const steps of streams) {
    if (!Array.isArray(steps) || steps.length === 0 || !steps.every(isStep)) {
      throw new InputDataError(`every stream must be an array of objects with the inputs by name: ${file}`)
    }
  }
  return streams
}

function inputTensors(step: JsonStep, inputs: readonly ModelInput[], shapes: Shapes, where: string): StepTensor[] {
  const known = new Set(inputs.map((input) => input.name))
  const unknown = Object.keys(step).find((name) => !known.has(name))
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
      const { content, shape } = contentOf(value)
      const given = shape ?? closedShape(input, shapes)
      return tensorOf(input, given, bytesOf(input, content, where), where)
    })
}

function expectedTensors(step: JsonStep, { outputs }: ModelUnderTest, where: string): StepTensor[] {
  return Object.entries(step).map(([name, value]) => {
    const output = outputs.find((each) => each.name === name)
    if (output === undefined) {
      throw new InputDataError(`The output '${name}' is not found in the model (${where})`)
    }
    const { content, shape } = contentOf(value)
    const bytes = bytesOf(output, content, where)
    return { name, dataType: output.dataType, shape: shape ?? [], bytes }
  })
}

function contentOf(value: JsonTensor): { readonly content: unknown; readonly shape: Shape | null } {
  if (typeof value !== 'object' || Array.isArray(value) || !('content' in value)) return { content: value, shape: null }
  const { content, shape } = value
  const isShape = Array.isArray(shape) && shape.every((size) => Number.isSafeInteger(size) && size >= 0)
  if (shape !== undefined && !isShape) throw new InputDataError("'shape' must be an array of sizes")
  return { content, shape: shape ?? null }
}

function bytesOf(
  tensor: { readonly name: string; readonly dataType: DataType },
  content: unknown,
  where: string,
): Uint8Array {
  const { name, dataType } = tensor
  if (typeof content === 'object' && content !== null && 'b64' in content && typeof content.b64 === 'string') {
    return Buffer.from(content.b64, 'base64')
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
  const found = dataType === 'BYTES' ? bytesElements(name, bytes).length : bytes.length / elementBytes[dataType]
  if (found !== count) {
    throw new InputDataError(
      `mismatch in the data provided for '${name}': shape ${shapeText(shape)} of ${dataType} has ${count} elements, ` +
        `the data ${Number.isInteger(found) ? found : `${bytes.length} bytes`} (${where})`,
    )
  }
  return { name, dataType, shape, bytes }
}

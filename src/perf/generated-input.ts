// Generates input data: zeros, or random values that every model accepts.

import { elementBytes, type DataType } from '../tensor/data-type.ts'
import { elementCount, type Shape } from '../tensor/shape.ts'
import { encodeTensorData } from '../client/tensor-data.ts'
import { InputDataError, maxInputBytes, type InputStep, type StepTensor } from './input-step.ts'
import { seededRandom } from './load/random.ts'
import type { ModelInput } from './model-under-test.ts'
import type { PerfOptions } from './perf-options.ts'

/** One step that every request sends, as with perf_analyzer. */
export function generatedStep(inputs: readonly ModelInput[], options: PerfOptions['input'], seed: number): InputStep {
  const random = seededRandom(seed)
  return { inputs: inputs.map((input) => generatedTensor(input, options, random)), expected: null }
}

function generatedTensor(input: ModelInput, options: PerfOptions['input'], random: () => number): StepTensor {
  const { name, dataType } = input
  const shape = closedShape(input, options.shapes)
  const count = elementCount(shape)
  if (!(count * Math.max(1, elementBytes[dataType]) <= maxInputBytes)) {
    throw new InputDataError(`input ${name} of shape [${shape.join(',')}] has more than 2 GiB`)
  }
  return { name, dataType, shape, bytes: generatedBytes(dataType, count, options, random) }
}

/** The shape to send. Throws when a dimension is open and --shape does not give its size. */
export function closedShape(input: ModelInput, shapes: ReadonlyMap<string, Shape>): Shape {
  const { name, shape } = input
  const given = shapes.get(name)
  if (given === undefined) {
    if (!shape.includes(-1)) return shape
    throw new InputDataError(
      `input ${name} contains dynamic shape, provide shapes to send along with the request (--shape ${name}:${shape
        .map((size) => (size === -1 ? 'N' : size))
        .join(',')})`,
    )
  }
  if (!fitsModel(given, shape)) {
    throw new InputDataError(
      `--shape ${name}:${given.join(',')} does not fit: the model takes [${shape.join(',')}] per row`,
    )
  }
  return given
}

/** Open dimensions of the model take any size. */
export const fitsModel = (given: Shape, model: Shape): boolean =>
  given.length === model.length && given.every((size, at) => model[at] === -1 || model[at] === size)

function generatedBytes(
  dataType: DataType,
  count: number,
  { isZero, stringData, stringLength }: PerfOptions['input'],
  random: () => number,
): Uint8Array {
  if (dataType === 'BYTES') {
    const text = (): string => stringData ?? (isZero ? '' : randomText(stringLength, random))
    return encodeTensorData('', Array.from({ length: count }, text), 'BYTES').bytes
  }
  const bytes = new Uint8Array(count * elementBytes[dataType])
  if (isZero) return bytes
  if (dataType === 'BOOL') return bytes.map(() => Math.floor(random() * 2))
  if (dataType.startsWith('FP') || dataType === 'BF16') {
    // Random bits would also give NaN and infinity, which are bad for a measurement.
    return encodeTensorData('', Float32Array.from({ length: count }, random), dataType).bytes
  }
  // Small numbers that fit every width and every vocabulary; little-endian, so the first byte is the value.
  const width = elementBytes[dataType]
  for (let at = 0; at < bytes.length; at += width) bytes[at] = Math.floor(random() * 128)
  return bytes
}

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

const randomText = (length: number, random: () => number): string => {
  let text = ''
  for (let at = 0; at < length; at++) text += letters[Math.floor(random() * letters.length)]
  return text
}

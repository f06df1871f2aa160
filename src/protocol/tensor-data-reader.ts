// The `data` of a JSON input → the tensor's bytes.

import type { ServerError } from '../base/server-error.ts'
import { elementBytes, type DataType } from '../tensor/data-type.ts'
import { worded } from '../model/worded-error.ts'
import { ElementBuffer } from './element-buffer.ts'
import { reportElements } from './element-report.ts'
import { readFloats } from './json-float-reader.ts'
import { readIntegers } from './json-integer-reader.ts'
import { char, type JsonScanner } from './json-scanner.ts'
import { readBooleans } from './json-boolean-reader.ts'
import { readStrings } from './json-string-reader.ts'
import { dataError, jsonInputTooLarge, type DataProblem } from './tensor-data-problem.ts'

export type TensorData = { readonly bytes: Uint8Array; readonly error: ServerError | null }

export const noBytes = new Uint8Array(0)

/** Whether elements of this type can be written in JSON at all. */
export const isJsonType = (dataType: DataType): boolean => dataType !== 'FP16' && dataType !== 'BF16'

/**
 * Reads the array at the scanner's position and moves behind it. Throws for malformed JSON. Returns an error for an
 * array that does not fit the tensor, because malformed JSON further on must be reported first.
 * `count` is above 0. It is not used for BYTES: the engine counts strings.
 */
export function readTensorData(
  scanner: JsonScanner,
  name: string,
  dataType: DataType,
  count: number,
  maxBytes: number,
): TensorData {
  const start = scanner.position
  if (dataType === 'BYTES') {
    const strings = readStrings(scanner, name, maxBytes)
    if (strings instanceof Uint8Array) return { bytes: strings, error: null }
    scanner.position = start
    if (strings === 'type') return { bytes: noBytes, error: dataError(scanner, name, dataType, strings, count) }
    scanner.skipValue()
    return { bytes: noBytes, error: strings }
  }
  const byteSize = count * elementBytes[dataType]
  if (byteSize > maxBytes) return { bytes: noBytes, error: tooLarge(scanner, name, dataType, count, maxBytes) }
  // Every element but the last takes a digit and a comma, so the text up to the first `]` bounds the number of elements.
  const firstBracket = scanner.bytes.indexOf(char.rightBracket, start)
  const guess = Math.floor(((firstBracket < 0 ? start : Math.min(firstBracket, scanner.end)) - start) / 2) + 1
  const buffer = new ElementBuffer(elementBytes[dataType], count, guess)
  const problem = readElements(scanner, dataType, buffer)
  if (problem === null) return { bytes: buffer.bytes, error: null }
  // An element is wrong: the whole array is scanned again for syntax errors.
  scanner.position = start
  return { bytes: noBytes, error: dataError(scanner, name, dataType, problem, count) }
}

/** A shape that says more than `data` has is that mistake, whatever its size: nothing needs the bytes it speaks of. */
function tooLarge(
  scanner: JsonScanner,
  name: string,
  dataType: DataType,
  count: number,
  maxBytes: number,
): ServerError {
  const { count: found } = reportElements(scanner, dataType)
  if (found !== count) return worded('elementCount', { input: name, expected: count, found })
  return jsonInputTooLarge(name, count * elementBytes[dataType], maxBytes)
}

function readElements(scanner: JsonScanner, dataType: DataType, buffer: ElementBuffer): DataProblem | null {
  if (dataType === 'FP32' || dataType === 'FP64') return readFloats(scanner, buffer)
  if (dataType === 'BOOL') return readBooleans(scanner, buffer)
  return readIntegers(scanner, buffer, dataType.startsWith('INT'))
}

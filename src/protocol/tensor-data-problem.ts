// What is wrong with the `data` of a JSON input.

import { ServerError } from '../base/server-error.ts'
import { worded, type WordedError } from '../model/worded-error.ts'
import type { DataType } from '../tensor/data-type.ts'
import { reportElements } from './element-report.ts'
import type { JsonScanner } from './json-scanner.ts'

/** Why `data` does not fill the tensor: an element of the wrong type, or too many or too few of them. */
export type DataProblem = 'type' | 'count'

/** What an element must be in JSON. */
function elementKind(dataType: DataType): 'boolean' | 'string' | 'unsigned-integer' | 'signed-integer' | 'number' {
  if (dataType === 'BOOL') return 'boolean'
  if (dataType === 'BYTES') return 'string'
  if (dataType.startsWith('UINT')) return 'unsigned-integer'
  return dataType.startsWith('INT') ? 'signed-integer' : 'number'
}

/** The scanner stands at the array, and afterwards behind it. Throws for malformed JSON. */
export function dataError(
  scanner: JsonScanner,
  input: string,
  dataType: DataType,
  problem: DataProblem,
  expected: number,
): WordedError {
  const { count, index, found } = reportElements(scanner, dataType)
  if (problem === 'count') return worded('elementCount', { input, expected, found: count })
  return worded('elementKind', { input, dataType, kind: elementKind(dataType), index, found })
}

export const jsonInputTooLarge = (name: string, byteSize: number, maxBytes: number): ServerError =>
  ServerError.withoutStack(
    'INVALID_ARG',
    `JSON input '${name}' has a byte_size (${byteSize} bytes) that exceeds the maximum allowed value of ${maxBytes} bytes. ` +
      'Use --http-max-input-size to increase the limit.',
  )

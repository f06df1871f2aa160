// Triton's errors for the `data` of a JSON input.

import { ServerError } from '../base/server-error.ts'

/** Why `data` does not fill the tensor: an element of the wrong type, or too many or too few of them. */
export type DataProblem = 'type' | 'count'

export const jsonTypeText = {
  BOOL: 'attempt to access JSON non-boolean as boolean',
  UINT: 'attempt to access JSON non-unsigned-integer as unsigned-integer',
  INT: 'attempt to access JSON non-signed-integer as signed-integer',
  FP: 'attempt to access JSON non-number as double',
  BYTES: 'attempt to access JSON non-string as string',
} as const

export const jsonInputTooLarge = (name: string, byteSize: number, maxBytes: number): ServerError =>
  ServerError.withoutStack(
    'INVALID_ARG',
    `JSON input '${name}' has a byte_size (${byteSize} bytes) that exceeds the maximum allowed value of ${maxBytes} bytes. ` +
      'Use --http-max-input-size to increase the limit.',
  )

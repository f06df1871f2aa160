import { leadingInteger } from '../../base/leading-integer.ts'
import { ServerError } from '../../base/server-error.ts'

const maxVersion = 2n ** 63n - 1n

/** Version text as C++ `stol` reads it: `01` is version 1. Throws Triton's text for what does not fit 64 bits. */
export function canonicalVersion(text: string): string {
  const number = leadingInteger(text)
  if (number === null || number > maxVersion || number < -maxVersion - 1n) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `failed to get model version from specified version string '${text}' (details: stol), version should be an integral value > 0`,
    )
  }
  if (number < 0n) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `invalid model version specified '${text}' , version should be an integral value > 0`,
    )
  }
  return String(number)
}

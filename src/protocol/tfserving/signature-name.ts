import { ServerError } from '../../base/server-error.ts'
import { char, type JsonScanner } from '../json-scanner.ts'
import { defaultSignature } from './tensorflow-type.ts'

/** A model of this server has one signature. */
export const isKnownSignature = (name: string): boolean => name === '' || name === defaultSignature

/** Reads the value of `signature_name` at the position. Throws unless the model has that signature. */
export function readSignatureName(scanner: JsonScanner, document: () => string): void {
  if (scanner.peek() !== char.quote) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `JSON Value: ${document()} not formatted correctly. 'signature_name' key must be a string value.`,
    )
  }
  scanner.scanString()
  const name = scanner.stringValue()
  if (isKnownSignature(name)) return
  throw ServerError.withoutStack(
    'INVALID_ARG',
    `Serving signature name: "${name.slice(0, 200)}" not found in signature def`,
  )
}

// The id, the parameters and the sequence of a request in JSON, without its tensors: what the choice of a version may ask for
// before the request is read.

import type { RequestHead } from '../model/choice.ts'
import type { ParameterValue } from '../model/parameters.ts'
import { char, JsonScanner, type JsonValue } from './json-scanner.ts'

/** Where the head of a body ends. An id or a parameter that stands behind larger tensors is not seen. */
const mostHeadBytes = 64 * 1024

/**
 * Of the first `length` bytes of the body. `parameters` of the outermost object are parameters; where `takesAll`, so is every
 * other member that is no array and no object. Never throws: what cannot be read is left to the reader of the request.
 */
export function readJsonRequestHead(body: Uint8Array, length: number, takesAll: boolean): RequestHead {
  const found = new Map<string, ParameterValue>()
  const parameters = new Map<string, ParameterValue>()
  const scanner = new JsonScanner(body, Math.min(length, mostHeadBytes))
  try {
    if (scanner.startDocument() === char.leftBrace) readMembers(scanner, found, parameters)
  } catch {
    // Cut off, or malformed: what stood before counts.
  }
  const id = found.get('id')
  found.delete('id')
  if (takesAll) for (const [name, value] of found) if (!parameters.has(name)) parameters.set(name, value)
  const sequence = parameters.get('sequence_id')
  return {
    id: typeof id === 'string' ? id : '',
    parameters,
    correlationId: typeof sequence === 'bigint' || typeof sequence === 'string' ? sequence : 0n,
  }
}

function readMembers(
  scanner: JsonScanner,
  found: Map<string, ParameterValue>,
  nested: Map<string, ParameterValue> | null,
): void {
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    const name = scanner.stringValue()
    const first = scanner.peek()
    if (nested !== null && name === 'parameters' && first === char.leftBrace) readMembers(scanner, nested, null)
    else if (first === char.leftBrace || first === char.leftBracket) scanner.skipValue()
    else keepScalar(found, name, scanner.readValue())
  }
}

function keepScalar(found: Map<string, ParameterValue>, name: string, value: JsonValue): void {
  if (value === null || typeof value === 'object' || found.has(name)) return
  found.set(name, value)
}

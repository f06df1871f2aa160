// Reads the id, the parameters and the sequence of a JSON request, without its tensors, for the choice of a version
// before the request is read.

import type { RequestHead } from '../model/request-origin.ts'
import type { ParameterValue } from '../model/parameters.ts'
import { char, JsonScanner, type JsonValue } from './json-scanner.ts'

/** Only so many bytes of the body are read. An id or a parameter after larger tensors is not seen. */
const mostHeadBytes = 64 * 1024

/**
 * Reads the first `length` bytes of the body. `parameters` of the outermost object are parameters; with `takesAll` also
 * every other member that is not an array or object. Never throws: the reader of the request reports errors.
 */
export function readJsonRequestHead(body: Uint8Array, length: number, takesAll: boolean): RequestHead {
  const found = new Map<string, ParameterValue>()
  const parameters = new Map<string, ParameterValue>()
  const scanner = new JsonScanner(body, Math.min(length, mostHeadBytes))
  try {
    if (scanner.startDocument() === char.leftBrace) readMembers(scanner, found, parameters)
  } catch {
    // The text is cut off or malformed: the members before that place are used.
  }
  const id = found.get('id')
  found.delete('id')
  if (takesAll) for (const [name, value] of found) if (!parameters.has(name)) parameters.set(name, value)
  const sequence = parameters.get('sequence_id')
  return {
    id: typeof id === 'string' ? id : '',
    parameters,
    correlationId: typeof sequence === 'bigint' || typeof sequence === 'string' ? sequence : 0n,
    isSequenceStart: parameters.get('sequence_start') === true,
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

// Reads small JSON bodies of the control endpoints as Triton does: RapidJSON's grammar and error texts, keys in order,
// of two members of one name the first. Inference requests have a reader of their own (infer-request-reader.ts).

import { ServerError } from '../base/server-error.ts'
import { worded } from '../model/worded-error.ts'
import { char, JsonScanner, type JsonScalar } from './json-scanner.ts'

type JsonObject = ReadonlyMap<string, JsonNode>
/**
 * An integer that fits 64 bits is a bigint, every other number a number: `1` is 1n and `1.0` is 1, because the protocol
 * treats them differently. An object is a Map, so that no key can change a prototype.
 */
export type JsonNode = JsonScalar | JsonNode[] | JsonObject

/** A value of few characters costs up to a few hundred bytes of memory, so the number of values is limited. */
const defaultMaxValues = 16_384

type Open = { array: JsonNode[]; object: null } | { array: null; object: Map<string, JsonNode>; key: string }

/** Throws for malformed JSON, and INVALID_ARG for a document of more values than allowed. */
export function parseJsonDocument(bytes: Uint8Array, maxValues: number = defaultMaxValues): JsonNode {
  const scanner = new JsonScanner(bytes)
  scanner.startDocument()
  const open: Open[] = []
  let count = 0
  for (;;) {
    if (++count > maxValues) {
      throw ServerError.withoutStack('INVALID_ARG', `the request JSON has more than ${maxValues} values, the maximum`)
    }
    let value = readNode(scanner, open)
    // A container with something in it: its first value is next.
    if (value === undefined) continue
    for (;;) {
      const container = open.at(-1)
      if (container === undefined) {
        scanner.endDocument()
        return value
      }
      if (addTo(container, value, scanner)) break
      open.pop()
      value = container.array ?? container.object
    }
  }
}

/** The value at the position; undefined for a container with content, which is then the last entry of `open`. */
function readNode(scanner: JsonScanner, open: Open[]): JsonNode | undefined {
  const c = scanner.peek()
  if (c === char.leftBracket) {
    if (!scanner.nextElement(true)) return []
    open.push({ array: [], object: null })
    return undefined
  }
  if (c === char.leftBrace) {
    if (!scanner.nextMember(true)) return new Map()
    open.push({ array: null, object: new Map(), key: scanner.stringValue() })
    return undefined
  }
  return scanner.readValue() as JsonScalar
}

/** Adds a value and moves to the next one; false when the container ends. */
function addTo(container: Open, value: JsonNode, scanner: JsonScanner): boolean {
  if (container.array !== null) {
    container.array.push(value)
    return scanner.nextElement(false)
  }
  if (!container.object.has(container.key)) container.object.set(container.key, value)
  if (!scanner.nextMember(false)) return false
  container.key = scanner.stringValue()
  return true
}

/** The member of this name; undefined without it, or when the node is not an object. For optional members. */
export const memberOf = (node: JsonNode | undefined, name: string): JsonNode | undefined =>
  node instanceof Map ? (node as JsonObject).get(name) : undefined

/** The member of that name, which must be there. */
export function requiredMember(node: JsonNode | undefined, name: string): JsonNode {
  const member = memberOf(node, name)
  if (member === undefined) {
    throw worded('noMember', { member: name })
  }
  return member
}

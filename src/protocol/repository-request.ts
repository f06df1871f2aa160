// The bodies of the model repository extension: index, load, unload.

import { ServerError } from '../base/server-error.ts'
import { worded } from '../model/worded-error.ts'
import { asBoolean, asString } from './json-access.ts'
import { memberOf, parseJsonDocument, type JsonNode } from './json-document.ts'

/** Whether only READY versions are wanted. Without a body, or when it is not an object, all versions are wanted. */
export function readIndexRequest(body: Uint8Array): boolean {
  if (body.length === 0) return false
  const ready = memberOf(parseJsonDocument(body), 'ready')
  return ready === undefined ? false : asBoolean(ready)
}

export type LoadParameters = {
  /** The JSON text of a ModelConfig; null without one. */
  readonly config: string | null
  /** `1/model.onnx` → its content, which came as base64. */
  readonly files: ReadonlyMap<string, Uint8Array>
}

const filePrefix = 'file:'

export function readLoadRequest(body: Uint8Array): LoadParameters {
  const files = new Map<string, Uint8Array>()
  let config: string | null = null
  const parameters = body.length === 0 ? undefined : memberOf(parseJsonDocument(body), 'parameters')
  if (parameters === undefined) return { config, files }
  if (!(parameters instanceof Map)) throw worded('notAnObject', { prefix: '', what: "'parameters'" })
  for (const [name, value] of parameters as ReadonlyMap<string, JsonNode>) {
    const text = asString(value)
    if (name === 'config') config = text
    // As with Triton's decoder, text that is not base64 gives an empty file.
    else if (name.startsWith(filePrefix)) files.set(name.slice(filePrefix.length), decodeBase64(text))
    else throw worded('control', { text: 'unexpected error on creating Triton parameter' })
  }
  return { config, files }
}

/** Whether the models of an ensemble are unloaded too. As in Triton a malformed body means no. */
export function readUnloadRequest(body: Uint8Array): boolean {
  if (body.length === 0) return false
  try {
    const parameters = memberOf(parseJsonDocument(body), 'parameters')
    const dependents = parameters === undefined ? undefined : memberOf(parameters, 'unload_dependents')
    return dependents !== undefined && asBoolean(dependents)
  } catch (reason) {
    if (reason instanceof ServerError) return false
    throw reason
  }
}

/** The white space at the end is cut off before: a pattern that names it twice takes time with the square of its length. */
const decodeBase64 = (text: string): Uint8Array =>
  /^[A-Za-z0-9+/\s]*={0,2}$/.test(text.trimEnd()) ? Buffer.from(text, 'base64') : new Uint8Array(0)

type IndexRow = {
  readonly name: string
  readonly version: string
  readonly state: string
  readonly reason: string
}

/** Empty fields are left out. */
export function encodeIndex(rows: readonly IndexRow[]): Buffer {
  const entries = rows.map(({ name, version, state, reason }) => ({
    name,
    ...(version === '' ? {} : { version }),
    ...(state === '' ? {} : { state }),
    ...(reason === '' ? {} : { reason }),
  }))
  return Buffer.from(JSON.stringify(entries))
}

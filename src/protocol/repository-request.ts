// The bodies of the model repository extension: index, load, unload.

import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { worded } from '../model/worded-error.ts'
import { asBoolean, asString } from './json-access.ts'
import { memberOf, parseJsonDocument, type JsonNode } from './json-document.ts'
import { parseModelConfigJson } from './model-config-json.ts'

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

/** `file:1/model.onnx` → `1/model.onnx`; null for the name of another load parameter. */
export const uploadedFile = (parameter: string): string | null =>
  parameter.startsWith(filePrefix) ? parameter.slice(filePrefix.length) : null

type ReadOverride = { readonly config: ModelConfig; readonly files: LoadParameters['files'] }

/** What a load of `model` replaces; null when the load brings nothing along. As in Triton the log has the reason of a refusal. */
export function readOverride(model: string, { config, files }: LoadParameters, log: Log): ReadOverride | null {
  if (config === null && files.size === 0) return null
  try {
    if (config !== null) return { config: parseModelConfigJson(config), files }
    throw new ServerError('INVALID_ARG', "load parameter 'config' must be specified for model file override")
  } catch (reason) {
    log.error(`Poll failed for model directory '${model}': ${messageOf(reason)}`)
    throw worded('pollFailed', { model, reason: messageOf(reason) })
  }
}

export function readLoadRequest(body: Uint8Array): LoadParameters {
  const files = new Map<string, Uint8Array>()
  let config: string | null = null
  const parameters = body.length === 0 ? undefined : memberOf(parseJsonDocument(body), 'parameters')
  if (parameters === undefined) return { config, files }
  if (!(parameters instanceof Map)) throw worded('notAnObject', { prefix: '', what: "'parameters'" })
  for (const [name, value] of parameters as ReadonlyMap<string, JsonNode>) {
    const text = asString(value)
    const file = uploadedFile(name)
    if (name === 'config') config = text
    // As with Triton's decoder, text that is not base64 gives an empty file.
    else if (file !== null) files.set(file, decodeBase64(text))
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

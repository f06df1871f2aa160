// ModelConfig as JSON: the answer of /config, and the `config` that a load request may send in place of config.pbtxt.

import { jsonFormProblem } from '../base/json-form.ts'
import { ServerError, messageOf } from '../base/server-error.ts'
import {
  emptyMessage,
  modelConfigSchema,
  scalarDefault,
  type FieldSchema,
  type MessageSchema,
} from '../config/model-config-schema.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { strictJsonOf } from './lenient-json.ts'

type Message = Record<string, unknown>

/** Fields whose 64-bit integers stay strings: Triton turns protobuf's strings into numbers, except in these fields. */
const fieldsLeftAsStrings: ReadonlySet<string> = new Set([
  'ModelSequenceBatching.InitialState.dims',
  'ModelOptimizationPolicy.Cuda.GraphSpec.Shape.dim',
  'ModelInstanceGroup.SecondaryDevice.device_id',
])

/** Fields that the recorded version of Triton does not have, so its answers do not print their default. */
const fieldsLeftOutAtDefault: ReadonlySet<string> = new Set(['ModelEnsembling.max_inflight_requests'])

/** Triton's /config text: snake_case, every scalar printed, absent messages and unset choices left out. */
export function encodeModelConfigJson(config: ModelConfig): string {
  return encodeMessage(modelConfigSchema(), config as unknown as Message)
}

function encodeMessage(schema: MessageSchema, message: Message): string {
  const parts: string[] = []
  const write = (field: FieldSchema): void => {
    const value = message[field.name]
    if (value === null) return
    const fullName = `${schema.name}.${field.wireName}`
    if (fieldsLeftOutAtDefault.has(fullName) && value === scalarDefault(field)) return
    parts.push(`"${field.wireName}":${encodeField(field, value, fieldsLeftAsStrings.has(fullName))}`)
  }
  // A scalar of a oneof comes last in protobuf's output, because it has no default that is printed in its place.
  const isLate = (field: FieldSchema): boolean => field.kind === 'oneof' && field.message === null
  for (const field of schema.fields) if (!isLate(field)) write(field)
  for (const field of schema.fields) if (isLate(field)) write(field)
  return `{${parts.join(',')}}`
}

function encodeField(field: FieldSchema, value: unknown, asString: boolean): string {
  if (field.kind === 'repeated')
    return `[${(value as unknown[]).map((v) => encodeValue(field, v, asString)).join(',')}]`
  if (field.kind !== 'map') return encodeValue(field, value, asString)
  const entries = [...(value as Map<string | bigint, unknown>)]
  return `{${entries.map(([key, v]) => `${JSON.stringify(String(key))}:${encodeValue(field, v, false)}`).join(',')}}`
}

function encodeValue(field: FieldSchema, value: unknown, asString: boolean): string {
  if (field.message !== null) return encodeMessage(field.message, value as Message)
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number') return asString ? `"${value}"` : encodeNumber(field, value)
  return JSON.stringify(value)
}

function encodeNumber(field: FieldSchema, value: number): string {
  if (Number.isNaN(value)) return '"NaN"'
  if (!Number.isFinite(value)) return value > 0 ? '"Infinity"' : '"-Infinity"'
  if (Object.is(value, -0)) return '-0'
  return String(field.type === 'float' ? shortestFloat(value) : value)
}

/** The number with the fewest digits that is the same 32-bit float: 0.1 rather than 0.10000000149011612. */
export function shortestFloat(value: number): number {
  // toPrecision would lose the sign of minus zero.
  if (value === 0) return value
  for (let digits = 6; digits <= 9; digits++) {
    const rounded = Number(value.toPrecision(digits))
    if (Math.fround(rounded) === value) return rounded
  }
  return value
}

/** No real configuration is so long. To parse a megabyte of `{}` would block the main thread. */
export const modelConfigJsonLimitBytes = 256 * 1024
/** Each becomes a message with all its fields, which is copied and looked through a few times. */
const mostConfigContainers = 8192

/** A load request's `config` text. Throws INVALID_ARG. Follows protobuf's JSON mapping. */
export function parseModelConfigJson(text: string): ModelConfig {
  if (text.length > modelConfigJsonLimitBytes) {
    throw refusal(`it has ${text.length} characters, at most ${modelConfigJsonLimitBytes} are read`)
  }
  return readMessage(modelConfigSchema(), parseJson(text), 'config') as unknown as ModelConfig
}

function parseJson(text: string): unknown {
  try {
    return parseStrictly(text)
  } catch (reason) {
    if (!(reason instanceof SyntaxError)) throw reason
    try {
      return parseStrictly(strictJsonOf(text))
    } catch {
      throw refusal(messageOf(reason), { cause: reason })
    }
  }
}

function parseStrictly(text: string): unknown {
  const formProblem = jsonFormProblem(new TextEncoder().encode(text), mostConfigContainers)
  if (formProblem !== '') throw refusal(formProblem)
  return /\d{16}/.test(text) ? JSON.parse(text, keepLongIntegers) : JSON.parse(text)
}

/** A whole number beyond 2^53 stays text: a uint64 field reads it exactly, and a double would lose digits. */
function keepLongIntegers(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  const isLong = typeof value === 'number' && !Number.isSafeInteger(value) && /^\d+$/.test(context?.source ?? '')
  return isLong ? context?.source : value
}

const refusal = (what: string, options?: ErrorOptions): ServerError =>
  new ServerError('INVALID_ARG', `Invalid config override: ${what}`, options)

function unexpected(path: string, expected: string, got: unknown): ServerError {
  const shown = JSON.stringify(got) ?? String(got)
  return refusal(`'${path}': expected ${expected}, got ${shown.length > 60 ? `${shown.slice(0, 60)}…` : shown}`)
}

function readMessage(schema: MessageSchema, json: unknown, path: string): Message {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) throw unexpected(path, 'an object', json)
  const message = emptyMessage(schema)
  const seen = new Set<FieldSchema>()
  for (const [key, value] of Object.entries(json)) {
    const field = schema.byWireName.get(key) ?? schema.byName.get(key)
    if (field === undefined) throw refusal(`'${path}': no such field: '${key}'`)
    const fieldPath = `${path}.${key}`
    if (seen.has(field)) throw refusal(`'${fieldPath}' is given twice, as '${field.wireName}' and as '${field.name}'`)
    seen.add(field)
    if (value === null) continue
    const rival = schema.fields.find((f) => f !== field && f.oneof !== null && f.oneof === field.oneof && seen.has(f))
    if (rival !== undefined && message[rival.name] !== null) {
      throw refusal(`'${fieldPath}' and '${rival.wireName}' exclude each other`)
    }
    message[field.name] = readField(field, value, fieldPath)
  }
  return message
}

function readField(field: FieldSchema, json: unknown, path: string): unknown {
  if (field.kind === 'repeated') {
    // As in Triton, a value alone is a list of one.
    if (!Array.isArray(json)) return [readValue(field, json, path)]
    return json.map((value: unknown, index) => readValue(field, value, `${path}[${index}]`))
  }
  if (field.kind !== 'map') return readValue(field, json, path)
  if (typeof json !== 'object' || json === null || Array.isArray(json)) throw unexpected(path, 'an object', json)
  return new Map(
    Object.entries(json).map(([key, value]) => [
      field.keyType === 'string' ? key : readInteger(field.keyType ?? '', key, `${path}.${key}`),
      readValue(field, value, `${path}.${key}`),
    ]),
  )
}

function readValue(field: FieldSchema, json: unknown, path: string): unknown {
  if (field.message !== null) return readMessage(field.message, json, path)
  if (field.enum !== null) return readEnum(field.enum.numbers, json, path)
  switch (field.type) {
    case 'string':
      if (typeof json !== 'string') throw unexpected(path, 'a string', json)
      return json
    case 'bool':
      if (json === 'true' || json === 'false') return json === 'true'
      if (typeof json !== 'boolean') throw unexpected(path, 'true or false', json)
      return json
    case 'float':
      return Math.fround(readFloat(json, path))
    case 'double':
      return readFloat(json, path)
    default:
      return readInteger(field.type, json, path)
  }
}

function readEnum(numbers: ReadonlyMap<string, number>, json: unknown, path: string): string {
  for (const [name, number] of numbers) {
    if (json === number || (typeof json === 'string' && json.toUpperCase() === name)) return name
  }
  throw unexpected(path, `one of ${[...numbers.keys()].join(', ')}`, json)
}

function readFloat(json: unknown, path: string): number {
  if (typeof json === 'number') return json
  if (json === 'NaN' || json === 'Infinity' || json === '-Infinity') return Number(json)
  if (typeof json === 'string' && /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(json)) return Number(json)
  throw unexpected(path, 'a number', json)
}

const integerRanges: Readonly<Record<string, readonly [bigint, bigint]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  // The exact integers of a JavaScript number: a configuration's int64 fields are dimensions and versions.
  int64: [BigInt(Number.MIN_SAFE_INTEGER), BigInt(Number.MAX_SAFE_INTEGER)],
  uint64: [0n, 2n ** 64n - 1n],
}

function readInteger(type: string, json: unknown, path: string): number | bigint {
  let value: bigint | null = null
  if (typeof json === 'number' && Number.isSafeInteger(json)) value = BigInt(json)
  else if (typeof json === 'string' && /^-?\d{1,20}$/.test(json)) value = BigInt(json)
  const [low, high] = integerRanges[type] ?? [0n, 0n]
  if (value === null || value < low || value > high) {
    throw unexpected(path, `a whole number from ${low} to ${high}`, json)
  }
  return type === 'uint64' ? value : Number(value)
}

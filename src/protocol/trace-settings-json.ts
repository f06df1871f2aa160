// The trace extension: trace settings as JSON. Every value is a string, trace_level a list of them.

import { leadingInteger } from '../base/leading-integer.ts'
import { ServerError } from '../base/server-error.ts'
import type { TraceChanges, TraceControl, TraceLevel } from '../model/trace-control.ts'
import { worded } from '../model/worded-error.ts'
import { asString } from './json-access.ts'
import { memberOf, parseJsonDocument, type JsonNode } from './json-document.ts'

export function readTraceChanges(body: Uint8Array): TraceChanges {
  const document = parseJsonDocument(body)
  if (memberOf(document, 'trace_file') !== undefined) refuseTraceFile()
  const levels = memberOf(document, 'trace_level')
  const read = <T>(name: string, parse: (name: string, text: string) => T): T | null | undefined => {
    const value = memberOf(document, name)
    if (value === undefined || value === null) return value
    return parse(name, asString(value))
  }
  const changes = {
    levels: levels === undefined || levels === null ? levels : traceLevelsOf(levelTexts(levels)),
    rate: read('trace_rate', parseUnsigned),
    count: read('trace_count', parseCount),
    logFrequency: read('log_frequency', parseUnsigned),
  }
  return Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) as TraceChanges
}

/** As in Triton a mode setting that was given more than once is written more than once. */
export function encodeTraceSettings(control: TraceControl, modelName: string): Buffer {
  const members = traceSettingTexts(control, modelName).flatMap(([name, values]) =>
    name === 'trace_level' ? [member(name, values)] : values.map((value) => member(name, value)),
  )
  return Buffer.from(`{${members.join(',')}}`)
}

const member = (name: string, value: string | readonly string[]): string =>
  `${JSON.stringify(name)}:${JSON.stringify(value)}`

/** In Triton's order. */
export function traceSettingTexts(control: TraceControl, modelName: string): [name: string, values: string[]][] {
  const { levels, rate, count, logFrequency } = control.settings(modelName)
  const common: [string, string[]][] = [
    ['trace_level', levels.length === 0 ? ['OFF'] : [...levels]],
    ['trace_rate', [String(rate)]],
    ['trace_count', [String(count)]],
  ]
  if (control.mode === 'opentelemetry') {
    const ofMode = new Map<string, string[]>()
    for (const [name, value] of control.modeSettings) ofMode.set(name, [...(ofMode.get(name) ?? []), value])
    return [...common, ['trace_mode', [control.mode]], ...ofMode]
  }
  return [
    ...common,
    ['log_frequency', [String(logFrequency)]],
    ['trace_file', [control.file]],
    ['trace_mode', [control.mode]],
  ]
}

export function refuseTraceFile(): never {
  throw worded('unsupported', { text: 'trace file location can not be updated through network protocol' })
}

const knownLevels: readonly TraceLevel[] = ['TIMESTAMPS', 'TENSORS']

/** Undefined when the list names no known level: then nothing changes. */
export function traceLevelsOf(texts: readonly string[]): readonly TraceLevel[] | undefined {
  if (texts.includes('OFF')) {
    if (texts.length > 1) throw invalid("Expect only one trace level 'OFF' is specified")
    return []
  }
  const levels = knownLevels.filter((level) => texts.includes(level))
  return levels.length === 0 ? undefined : levels
}

function levelTexts(levels: JsonNode): string[] {
  if (!Array.isArray(levels)) throw worded('memberKind', { member: '', verb: 'parse', kind: 'array' })
  return (levels as readonly JsonNode[]).map((level) => asString(level))
}

const maxUnsigned = 2n ** 32n - 1n

/**
 * As Triton reads it, with C++'s stoi: text after the number is ignored, a negative number wraps around. A number that
 * no int32 holds is refused, although the text of the refusal names the range of uint32.
 */
export function parseUnsigned(name: string, text: string): number {
  const number = integerOf(name, text)
  if (BigInt.asIntN(32, number) !== number) {
    throw invalid(`Unable to parse '${name}', value is out of range [ 0, ${maxUnsigned} ], got: ${text}`)
  }
  return Number(BigInt.asUintN(32, number))
}

/** `gap` stands before the value in the refusal: Triton writes one blank over gRPC and none over HTTP. */
export function parseCount(name: string, text: string, gap: '' | ' ' = ''): number {
  const number = integerOf(name, text)
  if (number < -1n) throw invalid(`Unable to parse '${name}'. Expecting value >= -1, got:${gap}${text}`)
  if (number >= 2n ** 31n) {
    throw invalid(`Unable to parse '${name}', value is out of range [ -1, ${2n ** 31n - 1n} ], got: ${text}`)
  }
  return Number(number)
}

function integerOf(name: string, text: string): bigint {
  const number = leadingInteger(text)
  if (number === null) throw invalid(`Unable to parse '${name}', got: ${text}`)
  return number
}

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

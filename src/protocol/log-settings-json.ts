// The logging extension: settings of the log as JSON.

import {
  logFormats,
  verboseLevelOf,
  type AdjustableLogSettings,
  type LogControl,
  type LogFormat,
} from '../base/log-control.ts'
import { ServerError } from '../base/server-error.ts'
import { worded } from '../model/worded-error.ts'
import { asBoolean, asString, asUnsigned } from './json-access.ts'
import { memberOf, parseJsonDocument, type JsonNode } from './json-document.ts'

type Apply = (value: JsonNode, control: LogControl) => void

const flag =
  (key: 'isInfoOn' | 'isWarningOn' | 'isErrorOn'): Apply =>
  (value, control) =>
    control.configure({ [key]: asBoolean(value) } satisfies Partial<AdjustableLogSettings>)

/** In Triton's order. */
const members: readonly (readonly [name: string, apply: Apply])[] = [
  ['log_file', refuseFile],
  ['log_info', flag('isInfoOn')],
  ['log_warning', flag('isWarningOn')],
  ['log_error', flag('isErrorOn')],
  ['log_verbose_level', (value, control) => control.configure({ verboseLevel: verboseLevelOf(asUnsigned(value)) })],
  ['log_format', (value, control) => control.configure({ format: logFormatOf(asString(value)) })],
]

/** Applies one setting after the other: settings before a refused one stay. Nulls and unknown names change nothing. */
export function applyLogSettings(body: Uint8Array, control: LogControl): void {
  const document = parseJsonDocument(body)
  for (const [name, apply] of members) {
    const value = memberOf(document, name)
    if (value !== undefined && value !== null) apply(value, control)
  }
}

export function encodeLogSettings({ settings }: LogControl): Buffer {
  return Buffer.from(
    JSON.stringify({
      log_file: settings.file,
      log_info: settings.isInfoOn,
      log_warning: settings.isWarningOn,
      log_error: settings.isErrorOn,
      log_verbose_level: settings.verboseLevel,
      log_format: settings.format,
    }),
  )
}

function refuseFile(): never {
  throw worded('unsupported', { text: 'log file location can not be updated through network protocol' })
}

function logFormatOf(text: string): LogFormat {
  const format = logFormats.find((known) => known === text)
  // UNAVAILABLE, hence a 503: Triton's choice.
  if (format === undefined) {
    throw ServerError.withoutStack('UNAVAILABLE', `invalid argument for --log_format, got: ${text}`)
  }
  return format
}

// Encodes one log entry: Triton's line, the same with an ISO time, or one JSON object per line. Pure.

import type { LogEntry, LogFields, LogLevel } from '../base/log.ts'
import type { LogFormat } from '../options/server-options.ts'

export type LineContext = {
  readonly format: LogFormat
  /** Wall-clock microseconds since 1970. */
  readonly wallUs: number
  readonly pid: number
  /** False when TRITON_SERVER_ESCAPE_LOG_MESSAGES=0: the message is written as it is, without quotes. */
  readonly isEscaped: boolean
}

const letterOf: Record<LogLevel, string> = { error: 'E', warning: 'W', info: 'I', verbose: 'I' }

export function encodeLogLine(entry: LogEntry, context: LineContext): string {
  if (context.format === 'json') return encodeJsonLine(entry, context)
  const message = `${entry.message}${encodeFields(entry.fields)}`
  // Tools that read Triton's logs expect one JSON string and nothing behind it.
  const quoted = context.isEscaped ? JSON.stringify(message) : message
  return `${linePrefix(entry.level, entry.source, context)}${quoted}\n`
}

/** `I0102 15:04:05.678901 1234 engine.ts:0] `, or `2026-01-02T15:04:05Z I 1234 engine.ts:0] `. */
export function linePrefix(level: LogLevel, source: string, context: LineContext): string {
  const iso = new Date(context.wallUs / 1000).toISOString()
  const place = `${context.pid} ${placeOf(source)}] `
  if (context.format === 'ISO8601') return `${iso.slice(0, 19)}Z ${letterOf[level]} ${place}`
  const day = iso.slice(5, 7) + iso.slice(8, 10)
  const us = String(Math.floor(context.wallUs) % 1_000_000).padStart(6, '0')
  return `${letterOf[level]}${day} ${iso.slice(11, 19)}.${us} ${place}`
}

// Tools that read Triton's logs expect a file name of letters, digits and underscores, and a line number after it.
function placeOf(source: string): string {
  if (source === '') return 'galatea:0'
  const place = source.replaceAll('-', '_')
  return /:\d+$/.test(place) ? place : `${place}:0`
}

export function encodeFields(fields: LogFields): string {
  let text = ''
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) continue
    text += ` ${key}=${encodeValue(value)}`
  }
  return text
}

/** Quotes a value that could be read as the next field or the next line. */
function encodeValue(value: Exclude<LogFields[string], undefined>): string {
  if (typeof value !== 'string') return String(value)
  return /^[\w./:@%+,-]+$/.test(value) ? value : JSON.stringify(value)
}

const reservedKeys = new Set(['time', 'level', 'pid', 'source', 'message'])

function encodeJsonLine(entry: LogEntry, context: LineContext): string {
  const line: Record<string, unknown> = {
    time: new Date(context.wallUs / 1000).toISOString(),
    level: entry.level,
    pid: context.pid,
    source: entry.source === '' ? 'galatea' : entry.source,
    message: entry.message,
  }
  for (const [key, value] of Object.entries(entry.fields)) {
    if (value === undefined) continue
    const name = reservedKeys.has(key) ? `${key}_` : key
    line[name] = typeof value === 'bigint' ? jsonBigint(value) : value
  }
  return `${JSON.stringify(line)}\n`
}

const jsonBigint = (value: bigint): number | string =>
  BigInt.asIntN(54, value) === value ? Number(value) : String(value)

// --trace-config and the older flags it replaced → TraceOptions.

import { parseCollectorUrl } from '../base/collector-url.ts'
import { messageOf } from '../base/server-error.ts'
import type { TraceOptions } from '../options/server-options.ts'
import { badOption, parseInteger, parseSetting } from './flag-forms.ts'
import type { Flags } from './flags.ts'

const levelWords: Readonly<Record<string, 'OFF' | 'TIMESTAMPS' | 'TENSORS'>> = {
  false: 'OFF',
  off: 'OFF',
  true: 'TIMESTAMPS',
  on: 'TIMESTAMPS',
  min: 'TIMESTAMPS',
  max: 'TIMESTAMPS',
  timestamps: 'TIMESTAMPS',
  tensors: 'TENSORS',
}

const maxUnsigned = 2 ** 32 - 1
const flag = 'trace-config'

type OpenTelemetryOptions = NonNullable<TraceOptions['openTelemetry']>
type Environment = Readonly<Record<string, string | undefined>>
type Settings = readonly { readonly owner: string; readonly key: string; readonly value: string }[]

export function traceOptions(flags: Flags, environment: Environment): TraceOptions {
  const settings = flags.all(flag).map((value) => parseSetting(flag, value))
  const last = (owner: string, key: string): string | undefined =>
    settings.findLast((setting) => setting.owner === owner && setting.key === key)?.value
  const integer = (text: string | undefined, older: number, min: number, max: number): number =>
    text === undefined ? older : parseInteger(flag, text, min, max)
  refuseUnknown(settings)
  const file = last('triton', 'file') ?? flags.text('trace-file')
  const given = settings.filter(({ owner, key }) => owner === '' && key === 'level').map(({ value }) => value)
  const levels = levelsOf(given.length > 0 ? given : flags.all('trace-level'))
  const isOpenTelemetry = last('', 'mode')?.toLowerCase() === 'opentelemetry'
  if (levels.length > 0 && file === '' && !isOpenTelemetry) {
    throw badOption(flag, 'tracing needs a file to write to: add --trace-config=triton,file=FILE')
  }
  return {
    levels,
    rate: integer(last('', 'rate'), flags.integer('trace-rate'), isOpenTelemetry ? 0 : 1, maxUnsigned),
    count: integer(last('', 'count'), flags.integer('trace-count'), -1, 2 ** 31 - 1),
    logFrequency: integer(last('triton', 'log-frequency'), flags.integer('trace-log-frequency'), 0, maxUnsigned),
    file,
    openTelemetry: isOpenTelemetry ? openTelemetryOptions(settings, environment) : null,
  }
}

const defaultCollector = 'http://localhost:4318/v1/traces'

/** What the command line leaves out is read from OpenTelemetry's own variables. */
function openTelemetryOptions(settings: Settings, environment: Environment): OpenTelemetryOptions {
  const valuesOf = (key: string): string[] =>
    settings.filter((setting) => setting.owner === 'opentelemetry' && setting.key === key).map(({ value }) => value)
  const number = (key: string, variable: string, standard: number): number => {
    const text = valuesOf(key).at(-1) ?? environment[variable]
    return text === undefined || text === '' ? standard : parseInteger(flag, text, 1, 2 ** 31 - 1)
  }
  const url = valuesOf('url').at(-1) ?? defaultCollector
  try {
    parseCollectorUrl(url)
  } catch (reason) {
    throw badOption(flag, messageOf(reason))
  }
  const maxQueueSize = number('bsp_max_queue_size', 'OTEL_BSP_MAX_QUEUE_SIZE', 2048)
  const maxExportBatchSize = number('bsp_max_export_batch_size', 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512)
  if (maxExportBatchSize > maxQueueSize) {
    throw badOption(
      flag,
      `bsp_max_export_batch_size (${maxExportBatchSize}) must not be more than bsp_max_queue_size (${maxQueueSize})`,
    )
  }
  return {
    url,
    resource: [
      ...pairsOf(environment['OTEL_RESOURCE_ATTRIBUTES'] ?? ''),
      ...serviceNameOf(environment),
      ...valuesOf('resource').map(resourceOf),
    ],
    headers: Object.fromEntries(pairsOf(environment['OTEL_EXPORTER_OTLP_HEADERS'] ?? '')),
    maxQueueSize,
    scheduleDelayMs: number('bsp_schedule_delay', 'OTEL_BSP_SCHEDULE_DELAY', 5000),
    maxExportBatchSize,
  }
}

function resourceOf(text: string): readonly [string, string] {
  const equals = text.indexOf('=')
  if (equals < 1) throw badOption(flag, `resource: expected key=value, got '${text}'`)
  return [text.slice(0, equals), text.slice(equals + 1)]
}

const serviceNameOf = ({ OTEL_SERVICE_NAME: name }: Environment): (readonly [string, string])[] =>
  name === undefined || name === '' ? [] : [['service.name', name]]

/** `a=b,c=d`, percent-encoded, as these variables are written. What is no pair is left out, as the standard says. */
function pairsOf(text: string): (readonly [string, string])[] {
  return text.split(',').flatMap((pair) => {
    const equals = pair.indexOf('=')
    if (equals < 1) return []
    try {
      return [[pair.slice(0, equals).trim(), decodeURIComponent(pair.slice(equals + 1).trim())] as const]
    } catch {
      return []
    }
  })
}

/** `off` anywhere means off. */
function levelsOf(words: readonly string[]): ('TIMESTAMPS' | 'TENSORS')[] {
  const found = new Set(
    words.map((word) => {
      const level = levelWords[word.toLowerCase()]
      if (level === undefined) throw badOption(flag, `invalid value for trace level option: ${word}`)
      return level
    }),
  )
  if (found.has('OFF')) return []
  return (['TIMESTAMPS', 'TENSORS'] as const).filter((level) => found.has(level))
}

const knownKeys: Readonly<Record<string, readonly string[]>> = {
  '': ['mode', 'rate', 'level', 'count'],
  triton: ['file', 'log-frequency'],
  opentelemetry: ['url', 'resource', 'bsp_max_queue_size', 'bsp_schedule_delay', 'bsp_max_export_batch_size'],
}

function refuseUnknown(settings: Settings): void {
  for (const { owner, key, value } of settings) {
    const keys = knownKeys[owner]
    if (keys === undefined) throw badOption(flag, `unknown trace mode '${owner}' (expected triton or opentelemetry)`)
    if (!keys.includes(key)) throw badOption(flag, `unknown setting '${key}' (expected ${keys.join(', ')})`)
    if (key === 'mode' && !['triton', 'opentelemetry'].includes(value.toLowerCase())) {
      throw badOption(flag, `invalid value for trace mode option: ${value}`)
    }
  }
}

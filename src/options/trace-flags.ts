// Which requests are traced: --trace-config and the older flags that it replaced.

import { parseCollectorUrl } from '../base/collector-url.ts'
import { messageOf } from '../base/server-error.ts'
import { deprecated, flag, repeatable, settingsOf, type FlagValues, type Surroundings } from './flag.ts'
import { badOption, formOf, integer, parseInteger, setting, text, type Setting } from './flag-forms.ts'
import type { TraceOptions } from './server-options.ts'

const name = 'trace-config'

const offWords = ['false', 'off']
const timestampWords = ['true', 'on', 'min', 'max', 'timestamps']

/** `MIN` and `MAX` are older words for TIMESTAMPS. */
const traceLevel = formOf('OFF|TIMESTAMPS|TENSORS', (flag, word): string => {
  if ([...offWords, ...timestampWords, 'tensors'].includes(word.toLowerCase())) return word.toLowerCase()
  throw badOption(
    flag === name ? `${name} level` : flag,
    `invalid value for trace level option: ${word}\nexpected OFF, TIMESTAMPS or TENSORS`,
  )
})

export const traceFlags = [
  flag(name, setting('[MODE,]KEY=VALUE'), '', repeatable).says('Which requests are traced').set('trace', traceOptions),
  flag('trace-file', text('FILE'), '', deprecated).says('Use --trace-config').readBy(name),
  flag('trace-level', traceLevel, 'OFF', { ...deprecated, ...repeatable })
    .says('Use --trace-config')
    .readBy(name),
  flag('trace-rate', integer(0), '1000', deprecated).says('Use --trace-config').readBy(name),
  flag('trace-count', integer(-1), '-1', deprecated).says('Use --trace-config').readBy(name),
  flag('trace-log-frequency', integer(0), '0', deprecated).says('Use --trace-config').readBy(name),
]

const maxUnsigned = 2 ** 32 - 1

type OpenTelemetryOptions = NonNullable<TraceOptions['openTelemetry']>
type Environment = Surroundings['environment']
type Settings = readonly Setting[]

function traceOptions(flags: FlagValues, { environment }: Surroundings): TraceOptions {
  const settings = settingsOf(flags, name)
  const last = (owner: string, key: string): string | undefined =>
    settings.findLast((setting) => setting.owner === owner && setting.key === key)?.value
  const number = (given: string | undefined, older: string, min: number, max: number): number =>
    given === undefined ? flags.number(older) : parseInteger(name, given, min, max)
  refuseUnknown(settings)
  const file = last('triton', 'file') ?? flags.text('trace-file')
  const given = settings.filter(({ owner, key }) => owner === '' && key === 'level').map(({ value }) => value)
  const levels = levelsOf(given.length > 0 ? given : flags.all('trace-level'))
  const isOpenTelemetry = last('', 'mode')?.toLowerCase() === 'opentelemetry'
  if (levels.length > 0 && file === '' && !isOpenTelemetry) {
    throw badOption(name, 'tracing needs a file to write to: add --trace-config=triton,file=FILE')
  }
  return {
    levels,
    rate: number(last('', 'rate'), 'trace-rate', 0, maxUnsigned),
    count: number(last('', 'count'), 'trace-count', -1, 2 ** 31 - 1),
    logFrequency: number(last('triton', 'log-frequency'), 'trace-log-frequency', 0, maxUnsigned),
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
    return text === undefined || text === '' ? standard : parseInteger(name, text, 1, 2 ** 31 - 1)
  }
  const url = valuesOf('url').at(-1) ?? defaultCollector
  try {
    parseCollectorUrl(url)
  } catch (reason) {
    throw badOption(name, messageOf(reason))
  }
  const maxQueueSize = number('bsp_max_queue_size', 'OTEL_BSP_MAX_QUEUE_SIZE', 2048)
  // Whoever asks for a small queue alone asks for batches that fit into it.
  const usualBatchSize = Math.min(512, maxQueueSize)
  const maxExportBatchSize = number('bsp_max_export_batch_size', 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE', usualBatchSize)
  if (maxExportBatchSize > maxQueueSize) {
    throw badOption(
      name,
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
  if (equals < 1) throw badOption(name, `resource: expected key=value, got '${text}'`)
  return [text.slice(0, equals), text.slice(equals + 1)]
}

const serviceNameOf = ({ OTEL_SERVICE_NAME: service = '' }: Environment): (readonly [string, string])[] =>
  service === '' ? [] : [['service.name', service]]

/** `a=b,c=d`, percent-encoded. A part that is no pair is left out, as the standard of OpenTelemetry says. */
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

/** One `off` among the levels means off. */
function levelsOf(words: readonly string[]): TraceOptions['levels'] {
  const given = words.map((word) => traceLevel.parse(name, word))
  if (given.some((word) => offWords.includes(word))) return []
  const timestamps = given.some((word) => timestampWords.includes(word)) ? (['TIMESTAMPS'] as const) : []
  return given.includes('tensors') ? [...timestamps, 'TENSORS'] : timestamps
}

const knownKeys: Readonly<Record<string, readonly string[]>> = {
  '': ['mode', 'rate', 'level', 'count'],
  triton: ['file', 'log-frequency'],
  opentelemetry: ['url', 'resource', 'bsp_max_queue_size', 'bsp_schedule_delay', 'bsp_max_export_batch_size'],
}

function refuseUnknown(settings: Settings): void {
  for (const { owner, key, value } of settings) {
    const keys = knownKeys[owner]
    if (keys === undefined) throw badOption(name, `unknown trace mode '${owner}' (expected triton or opentelemetry)`)
    if (!keys.includes(key)) throw badOption(name, `unknown setting '${key}' (expected ${keys.join(', ')})`)
    if (key === 'mode' && !['triton', 'opentelemetry'].includes(value.toLowerCase())) {
      const known = 'Available options are "triton" and "opentelemetry"'
      throw badOption(`${name} mode`, `invalid value for trace mode option: ${value}. ${known}`)
    }
  }
}

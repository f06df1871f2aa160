// --trace-config and the older flags it replaced → TraceOptions.

import type { TraceOptions } from '../server-options.ts'
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

/** Mode `opentelemetry` is not there yet: it is said at start, and nothing is traced. */
export const wantsOpenTelemetry = (flags: Flags): boolean =>
  flags.all(flag).some((value) => {
    const { owner, key, value: mode } = parseSetting(flag, value)
    return owner === '' && key === 'mode' && mode.toLowerCase() === 'opentelemetry'
  })

export function traceOptions(flags: Flags): TraceOptions {
  const settings = flags.all(flag).map((value) => parseSetting(flag, value))
  const last = (owner: string, key: string): string | undefined =>
    settings.findLast((setting) => setting.owner === owner && setting.key === key)?.value
  const integer = (text: string | undefined, older: number, min: number, max: number): number =>
    text === undefined ? older : parseInteger(flag, text, min, max)
  refuseUnknown(settings)
  const file = last('triton', 'file') ?? flags.text('trace-file')
  const given = settings.filter(({ owner, key }) => owner === '' && key === 'level').map(({ value }) => value)
  const levels = levelsOf(given.length > 0 ? given : flags.all('trace-level'))
  const isOpenTelemetry = wantsOpenTelemetry(flags)
  if (levels.length > 0 && file === '' && !isOpenTelemetry) {
    throw badOption(flag, 'tracing needs a file to write to: add --trace-config=triton,file=FILE')
  }
  return {
    levels: isOpenTelemetry ? [] : levels,
    rate: integer(last('', 'rate'), flags.integer('trace-rate'), 1, maxUnsigned),
    count: integer(last('', 'count'), flags.integer('trace-count'), -1, 2 ** 31 - 1),
    logFrequency: integer(last('triton', 'log-frequency'), flags.integer('trace-log-frequency'), 0, maxUnsigned),
    file,
  }
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
}

function refuseUnknown(settings: readonly { owner: string; key: string; value: string }[]): void {
  for (const { owner, key, value } of settings) {
    if (owner === 'opentelemetry') continue
    const keys = knownKeys[owner]
    if (keys === undefined) throw badOption(flag, `unknown trace mode '${owner}' (expected triton or opentelemetry)`)
    if (!keys.includes(key)) throw badOption(flag, `unknown setting '${key}' (expected ${keys.join(', ')})`)
    if (key === 'mode' && !['triton', 'opentelemetry'].includes(value.toLowerCase())) {
      throw badOption(flag, `invalid value for trace mode option: ${value}`)
    }
  }
}

// argv and environment → the value of every flag. Knows forms and names; what the values mean is options-from-flags.ts.

import { nearestWord } from '../base/nearest-word.ts'
import {
  badOption,
  FlagError,
  isBooleanWord,
  parseBoolean,
  parseInteger,
  parseSeconds,
  UnknownFlagError,
} from './flag-forms.ts'
import { environmentName, flagsByName, flagTable } from './flag-table.ts'
import type { FlagSpec } from './flag-table.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export class Flags {
  readonly #given: ReadonlyMap<string, readonly string[]>
  readonly #hasTritonDefaults: boolean

  constructor(given: ReadonlyMap<string, readonly string[]>) {
    this.#given = given
    this.#hasTritonDefaults = parseBoolean('triton-defaults', given.get('triton-defaults')?.at(-1) ?? 'false')
  }

  /** Whether somebody set it, on the command line or in the environment. */
  isGiven(name: string): boolean {
    return this.#given.has(name)
  }

  /** All values of a repeatable flag, in order. */
  all(name: string): readonly string[] {
    return this.#given.get(name) ?? []
  }

  /** The last value given, else the default; '' when there is neither. */
  text(name: string): string {
    const spec = specOf(name)
    return this.#given.get(name)?.at(-1) ?? (this.#hasTritonDefaults ? spec.tritonDefault : spec.default)
  }

  isOn(name: string): boolean {
    return parseBoolean(name, this.text(name))
  }

  integer(name: string): number {
    const { form } = specOf(name)
    const value = this.text(name)
    if (form.kind === 'verbosity') return parseVerbosity(name, value)
    if (form.kind !== 'integer') throw new TypeError(`--${name} is not an integer`)
    return parseInteger(name, value, form.min, form.max)
  }

  milliseconds(name: string): number {
    const { form } = specOf(name)
    if (form.kind !== 'seconds') throw new TypeError(`--${name} is not a number of seconds`)
    return parseSeconds(name, this.text(name), form.min)
  }

  /** Flags that were given, that this version does not act on, and whose value asks for something. */
  withoutEffect(): string[] {
    return flagTable
      .filter((spec) => spec.status === 'accepted' && this.#given.has(spec.name))
      .filter((spec) => !isHarmless(spec, this.text(spec.name)))
      .map((spec) => `--${spec.name}`)
  }
}

function isHarmless(spec: FlagSpec, value: string): boolean {
  if (spec.harmlessValue === '') return false
  if (spec.form.kind === 'boolean') {
    return parseBoolean(spec.name, value) === parseBoolean(spec.name, spec.harmlessValue)
  }
  return value === spec.harmlessValue
}

function specOf(name: string): FlagSpec {
  const spec = flagsByName.get(name)
  if (spec === undefined) throw new TypeError(`there is no flag --${name}`)
  return spec
}

/** Throws a FlagError for the first mistake. An explicit flag beats the environment, which beats the default. */
export function parseFlags(args: readonly string[], environment: Environment): Flags {
  const given = fromEnvironment(environment)
  const onCommandLine = new Set<string>()
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? ''
    if (!arg.startsWith('--') || arg === '--') throw unexpectedArgument(arg)
    const equals = arg.indexOf('=')
    const name = equals < 0 ? arg.slice(2) : arg.slice(2, equals)
    const spec = flagsByName.get(name)
    if (spec === undefined) throw unknownFlag(name)
    let value = equals < 0 ? null : arg.slice(equals + 1)
    if (value === null && takesNext(spec, args[i + 1])) value = args[++i] ?? null
    if (value === null && spec.form.kind !== 'boolean' && spec.form.kind !== 'switch') {
      throw new FlagError(`option '--${name}' requires an argument`)
    }
    if (spec.form.kind === 'switch' && value !== null) {
      throw new FlagError(`option '--${name}' doesn't allow an argument`)
    }
    value ??= 'true'
    checkForm(spec, value)
    const values = spec.isRepeatable && onCommandLine.has(name) ? (given.get(name) ?? []) : []
    given.set(name, [...values, value])
    onCommandLine.add(name)
  }
  return new Flags(given)
}

// A bare boolean is true. It takes the next word only when that reads as a boolean or cannot be a flag, so that
// `--exit-on-error maybe` is told what is wrong with 'maybe'.
function takesNext(spec: FlagSpec, next: string | undefined): boolean {
  if (next === undefined || spec.form.kind === 'switch') return false
  if (spec.form.kind === 'boolean') return isBooleanWord(next) || !next.startsWith('-')
  return !next.startsWith('--')
}

function unexpectedArgument(arg: string): FlagError {
  const hint = arg.startsWith('-') ? `flags begin with two dashes` : `a model repository is named by --model-repository`
  return new FlagError(`Unexpected argument: ${arg} (${hint})`)
}

function unknownFlag(name: string): UnknownFlagError {
  const nearest = nearestWord(name, flagsByName.keys())
  return new UnknownFlagError(name, nearest === null ? '' : `did you mean '--${nearest}'?`)
}

/** Several values of a repeatable flag are separated by semicolons. */
function fromEnvironment(environment: Environment): Map<string, string[]> {
  const given = new Map<string, string[]>()
  for (const spec of flagTable) {
    const variable = environmentName(spec.name)
    const value = environment[variable]
    if (value === undefined || value === '') continue
    const values = spec.isRepeatable ? value.split(';').filter((part) => part !== '') : [value]
    for (const part of values) {
      try {
        checkForm(spec, part)
      } catch (reason) {
        if (!(reason instanceof FlagError)) throw reason
        throw new FlagError(`environment variable ${variable}: ${reason.message}`)
      }
    }
    given.set(spec.name, values)
  }
  return given
}

/** GALATEA_… variables that look like a flag's with a slip of the finger, as sentences for the log. */
export function misspeltVariables(environment: Environment): string[] {
  const known = flagTable.map((spec) => environmentName(spec.name))
  return Object.keys(environment)
    .filter((name) => name.startsWith('GALATEA_') && !known.includes(name))
    .flatMap((name) => {
      const nearest = nearestWord(
        name.slice(8),
        flagTable.map((spec) => environmentName(spec.name).slice(8)),
      )
      return nearest === null ? [] : [`environment variable ${name} is not known; did you mean GALATEA_${nearest}?`]
    })
}

function parseVerbosity(name: string, value: string): number {
  if (isBooleanWord(value)) return parseBoolean(name, value) ? 1 : 0
  return parseInteger(name, value, 0, 2 ** 31 - 1)
}

function checkForm(spec: FlagSpec, value: string): void {
  const { form, name } = spec
  switch (form.kind) {
    case 'boolean':
    case 'switch':
      parseBoolean(name, value)
      return
    case 'verbosity':
      parseVerbosity(name, value)
      return
    case 'integer':
      parseInteger(name, value, form.min, form.max)
      return
    case 'seconds':
      parseSeconds(name, value, form.min)
      return
    case 'choice':
      if (!form.choices.includes(value)) {
        throw badOption(name, `invalid argument for --${name}\nexpected ${form.choices.join(', ')}, got '${value}'`)
      }
      return
    case 'text':
      return
    case 'checked':
      form.check(name, value)
  }
}

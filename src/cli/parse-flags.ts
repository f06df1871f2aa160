// The command line and the environment → the value of every flag. The table of flags says what each value means.

import { nearestWord } from '../base/nearest-word.ts'
import type { Flag } from '../options/flag.ts'
import { FlagError, isBooleanWord, UnknownFlagError } from '../options/flag-forms.ts'
import { platformDefaults } from '../options/cloud-flags.ts'
import { environmentName, flagsByName, flagTable } from '../options/flag-table.ts'
import { Flags } from '../options/flags.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Throws a FlagError for the first mistake. The command line wins over the environment, and both over the default. */
export function parseFlags(args: readonly string[], environment: Environment): Flags {
  const given = new Map([...platformDefaults(environment), ...fromEnvironment(environment)])
  const onCommandLine = new Set<string>()
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? ''
    // Two dashes end the flags, as in every program. Nothing may follow.
    if (arg === '--' && i === args.length - 1) break
    if (!arg.startsWith('--') || arg === '--') throw unexpectedArgument(arg)
    const equals = arg.indexOf('=')
    const name = fullName(equals < 0 ? arg.slice(2) : arg.slice(2, equals))
    const flag = flagsByName.get(name)
    if (flag === undefined) throw unknownFlag(name, arg)
    let value = equals < 0 ? null : arg.slice(equals + 1)
    if (value === null && takesNext(flag, args[i + 1])) value = args[++i] ?? null
    if (value === null && flag.form.kind === 'value') {
      throw new FlagError(`option '--${name}' requires an argument`)
    }
    if (flag.form.kind === 'switch' && value !== null) {
      throw new FlagError(`option '--${name}' doesn't allow an argument`)
    }
    value ??= 'true'
    flag.form.parse(name, value)
    const values = flag.traits.isRepeatable && onCommandLine.has(name) ? (given.get(name) ?? []) : []
    given.set(name, [...values, value])
    onCommandLine.add(name)
  }
  return new Flags(given)
}

/** A beginning that one flag alone has stands for that flag, as in Triton: `--log-warn=false`. Flags that Triton lacks do not count then. */
function fullName(written: string): string {
  if (written === '' || flagsByName.has(written)) return written
  const meant = [...flagsByName.values()].filter(({ name }) => name.startsWith(written))
  const tritons = meant.filter(({ traits }) => traits.isTritons)
  const found = tritons.length === 1 ? tritons : meant
  if (found.length > 1) {
    const names = found.map(({ name }) => name)
    throw new UnknownFlagError(written, '', names)
  }
  return found[0]?.name ?? written
}

// A bare boolean is true. It takes the next word only when that reads as a boolean or cannot be a flag, so that
// `--exit-on-error maybe` is told what is wrong with 'maybe'.
function takesNext(flag: Flag, next: string | undefined): boolean {
  if (next === undefined || flag.form.kind === 'switch') return false
  if (flag.form.kind === 'boolean') return isBooleanWord(next) || !next.startsWith('-')
  return !next.startsWith('--')
}

function unexpectedArgument(arg: string): FlagError {
  if (/^-[^-]/.test(arg)) return new FlagError(`invalid option -- '${arg[1]}'\nflags begin with two dashes`)
  const hint = arg === '--' ? 'nothing may follow two dashes' : 'a model repository is named by --model-repository'
  return new FlagError(`Unexpected argument: ${arg}\n${hint}`)
}

/** As in Triton the whole of what was written is named, with its value. */
function unknownFlag(name: string, written: string): UnknownFlagError {
  const nearest = nearestWord(name, flagsByName.keys())
  return new UnknownFlagError(written.slice(2), nearest === null ? '' : `did you mean '--${nearest}'?`)
}

/** Several values of a repeatable flag are separated by semicolons. */
function fromEnvironment(environment: Environment): Map<string, string[]> {
  const given = new Map<string, string[]>()
  for (const flag of flagTable) {
    const variable = environmentName(flag.name)
    const value = environment[variable]
    if (value === undefined || value === '') continue
    const values = flag.traits.isRepeatable ? value.split(';').filter((part) => part !== '') : [value]
    for (const part of values) {
      try {
        flag.form.parse(flag.name, part)
      } catch (reason) {
        if (!(reason instanceof FlagError)) throw reason
        throw new FlagError(`environment variable ${variable}: ${reason.message}`)
      }
    }
    given.set(flag.name, values)
  }
  return given
}

/** Sentences for the log about GALATEA_… variables that are probably misspelt flags. */
export function misspeltVariables(environment: Environment): string[] {
  const known = flagTable.map((flag) => environmentName(flag.name))
  return Object.keys(environment)
    .filter((name) => name.startsWith('GALATEA_') && !known.includes(name))
    .flatMap((name) => {
      const nearest = nearestWord(
        name.slice(8),
        flagTable.map((flag) => environmentName(flag.name).slice(8)),
      )
      return nearest === null ? [] : [`environment variable ${name} is not known; did you mean GALATEA_${nearest}?`]
    })
}

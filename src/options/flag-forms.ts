// The forms of flag values: how each is read, and what is said when it cannot be.

import { apiNames } from '../access/api-name.ts'

/** A mistake on the command line. The message is shown to the user. */
export class FlagError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'FlagError'
  }
}

/** A flag that does not exist; `hint` names the one that was likely meant, or is ''. */
export class UnknownFlagError extends FlagError {
  readonly hint: string

  /** `meant`: the flags that a beginning stands for. */
  constructor(name: string, hint: string, meant: readonly string[] = []) {
    const possibilities = meant.map((flag) => `'--${flag}'`).join(' ')
    super(
      meant.length === 0
        ? `unrecognized option '--${name}'`
        : `option '--${name}' is ambiguous; possibilities: ${possibilities}`,
    )
    this.hint = hint
  }
}

/** Triton's wording: the flag first, then what is wrong with its value. What was expected stands on a line of its own: Triton's lines stay as they are. */
export const badOption = (flag: string, reason: string): FlagError =>
  new FlagError(`Bad option: "--${flag}".\n${reason}`)

/** How the value of a flag is written, and what it is read as. */
export type FlagForm<T> = {
  /** boolean: the flag alone means true. switch: the flag takes no value. */
  readonly kind: 'boolean' | 'switch' | 'value'
  /** What --help and the reference show for the value. */
  readonly placeholder: string
  /** Throws a FlagError that says what is wrong. */
  readonly parse: (flag: string, text: string) => T
}

export const formOf = <T>(placeholder: string, parse: FlagForm<T>['parse']): FlagForm<T> => ({
  kind: 'value',
  placeholder,
  parse,
})

const trueWords = new Set(['true', 'on', '1'])
const falseWords = new Set(['false', 'off', '0'])

export const isBooleanWord = (value: string): boolean =>
  trueWords.has(value.toLowerCase()) || falseWords.has(value.toLowerCase())

export function parseBoolean(flag: string, value: string): boolean {
  const word = value.toLowerCase()
  if (trueWords.has(word)) return true
  if (falseWords.has(word)) return false
  throw badOption(flag, `invalid value for bool option: ${value}\nexpected true, on, 1, false, off or 0`)
}

/** Blanks around the digits are left out: a line of YAML or a shell variable brings them along. */
export function parseInteger(flag: string, value: string, min: number, max: number): number {
  if (!/^\s*[+-]?\d+\s*$/.test(value))
    throw badOption(flag, `Invalid option value. Got ${value}\nexpected a whole number`)
  const number = Number(value)
  if (number < min || number > max) {
    throw badOption(flag, `Provided option value is out of bound. Got ${value}\nexpected ${min} to ${max}`)
  }
  return number
}

/** Seconds, with or without a fraction, as milliseconds. */
function parseSeconds(flag: string, value: string): number {
  const min = 0.001
  if (!/^\d+(\.\d+)?$/.test(value)) throw badOption(flag, `Invalid option value. Got ${value}\nexpected seconds`)
  const seconds = Number(value)
  // Node's timers hold 2^31 milliseconds, which is a little more than three weeks.
  if (seconds < min || seconds > 2_000_000) {
    throw badOption(flag, `Provided option value is out of bound. Got ${value}\nexpected ${min} to 2000000`)
  }
  return Math.round(seconds * 1000)
}

export function parseQueueSize(flag: string, value: string): 'auto' | 'unlimited' | number {
  if (value === 'auto' || value === 'unlimited') return value
  if (!/^\d+$/.test(value)) throw badOption(flag, `expected auto, unlimited or a whole number, got '${value}'`)
  return parseInteger(flag, value, 1, 2 ** 31 - 1)
}

/** `unlimited`, bytes, or a number with a unit: `500MB`, `1.5GiB`. */
function parseByteSize(flag: string, value: string): number {
  if (value === 'unlimited') return Infinity
  const match = /^(\d+(?:\.\d+)?) ?(?:(?:([KMGT])(I)?)?B)?$/i.exec(value)
  if (match === null) throw badOption(flag, `expected a size such as 20GB, 500MiB or unlimited, got '${value}'`)
  const [, number, prefix = ' ', binary] = match
  const factor = (binary === undefined ? 1000 : 1024) ** ' KMGT'.indexOf(prefix.toUpperCase())
  return Math.round(Number(number) * factor)
}

export type Setting = { readonly owner: string; readonly key: string; readonly value: string }

/** How Triton writes the form of each flag with settings. */
const settingFormats: Readonly<Record<string, string>> = {
  'backend-config': "'<backend name>,<setting>=<value>'",
  'cache-config': "'<cache name>,<setting>=<value>'",
  'host-policy': "'<policy name>,<setting>=<value>'",
  'metrics-config': '<setting>=<value>',
  'trace-config': "'<trace mode>,<setting>=<value>'",
}

export const badSetting = (flag: string, value: string): FlagError =>
  badOption(flag, `--${flag} option format is ${settingFormats[flag] ?? "'<setting>=<value>'"}. Got ${value}`)

/** In Triton's words, which differ from flag to flag. */
export function noOwner(flag: string, value: string): FlagError {
  const [, owner = ''] = /^'<((?:backend|trace|cache) \w+)>/.exec(settingFormats[flag] ?? '') ?? []
  if (owner === '') return badSetting(flag, value)
  const noun = owner.replace(' name', '')
  const alone = noun === 'cache' ? '' : ' or <setting>=<value>'
  const format = `--${flag} option format is <${owner}>,<setting>=<value>${alone}`
  return badOption(flag, `No ${noun} specified. ${format}. Got ${value}`)
}

/** `<owner>,<key>=<value>`, or `<key>=<value>` whose owner is ''. A comma after the equals sign belongs to the value. */
export function parseSetting(flag: string, value: string): Setting {
  const equals = value.indexOf('=')
  const comma = value.indexOf(',')
  const hasOwner = comma >= 0 && comma < equals
  if (comma === 0) throw noOwner(flag, value)
  const key = equals < 0 ? '' : value.slice(hasOwner ? comma + 1 : 0, equals)
  if (key === '' || equals === value.length - 1) throw badSetting(flag, value)
  return { owner: hasOwner ? value.slice(0, comma) : '', key, value: value.slice(equals + 1) }
}

const restrictedNoun = (flag: string): string => (flag.endsWith('protocol') ? 'protocol' : 'api')

type RestrictedApis = { readonly apis: readonly string[]; readonly key: string; readonly value: string }

export function parseRestrictedApis(flag: string, value: string, known: readonly string[] = apiNames): RestrictedApis {
  const colon = value.indexOf(':')
  const equals = value.indexOf('=', colon + 1)
  if (colon <= 0 || equals <= colon + 1 || equals === value.length - 1) {
    throw badOption(
      flag,
      `--${flag} option format is '<config name>:<setting>=<value>'. Got ${value}\nexpected <api>,<api>:<key>=<value>`,
    )
  }
  const apis = value.slice(0, colon).split(',')
  for (const api of apis) {
    if (!known.includes(api)) {
      throw badOption(flag, `unknown restricted ${restrictedNoun(flag)} '${api}' \nthere are ${known.join(', ')}`)
    }
  }
  return { apis, key: value.slice(colon + 1, equals), value: value.slice(equals + 1) }
}

export const boolean: FlagForm<boolean> = { kind: 'boolean', placeholder: 'true|false', parse: parseBoolean }
export const bareSwitch: FlagForm<boolean> = { kind: 'switch', placeholder: '', parse: parseBoolean }
/** A number, or true for 1 and false for 0. A level below 0 is 0, as in Triton. */
export const verbosity: FlagForm<number> = formOf('N', (flag, text) => {
  if (isBooleanWord(text)) return parseBoolean(flag, text) ? 1 : 0
  return Math.max(0, parseInteger(flag, text, -(2 ** 31), 2 ** 31 - 1))
})
export const integer = (min: number, max: number = 2 ** 31 - 1): FlagForm<number> =>
  formOf('N', (flag, text) => parseInteger(flag, text, min, max))
/** For what has no effect here: every number that Triton takes. */
export const anyInteger: FlagForm<number> = integer(-(2 ** 31))
export const port: FlagForm<number> = integer(0, 65535)

/** A port that need not be there. */
export const portOrNone = formOf('N|none', (name, given): number | null =>
  given === 'none' ? null : parseInteger(name, given, 0, 65_535),
)
export const bytes: FlagForm<number> = integer(1, Number.MAX_SAFE_INTEGER)
/** Seconds on the command line, milliseconds in the options. */
export const seconds: FlagForm<number> = formOf('SECONDS', parseSeconds)
/** Triton takes parts of milliseconds. Its times are rounded up to whole ones here, as timers have them. */
export const milliseconds: FlagForm<number> = formOf('N', (flag, given) => {
  const number = /^\s*\+?\d+(\.\d*)?(e[+-]?\d+)?\s*$/i.test(given) ? Math.ceil(Number(given)) : given
  return parseInteger(flag, String(number), 1, 2 ** 31 - 1)
})
export const text = (placeholder: string): FlagForm<string> => formOf(placeholder, (_, given) => given)
/** A text that is not empty. */
export const someText = (placeholder: string): FlagForm<string> =>
  formOf(placeholder, (flag, given) => {
    if (given !== '') return given
    throw badOption(flag, `invalid argument for --${flag}\nexpected ${placeholder}, got ''`)
  })

const oneOf = <C extends string>(choices: readonly C[], isSame: (word: string, text: string) => boolean): FlagForm<C> =>
  formOf(choices.join('|'), (flag, text) => {
    const chosen = choices.find((word) => isSame(word, text))
    if (chosen !== undefined) return chosen
    const named = flag === 'grpc-infer-response-compression-level' ? flag.replaceAll('-', '_') : flag
    throw badOption(flag, `invalid argument for --${named}\nexpected ${choices.join(', ')}, got '${text}'`)
  })
export const choice = <const C extends string>(...choices: C[]): FlagForm<C> =>
  oneOf(choices, (word, text) => word === text)
/** One of these words, in capital or small letters. */
export const choiceInAnyCase = <const C extends string>(...choices: C[]): FlagForm<C> =>
  oneOf(choices, (word, text) => word === text.toLowerCase())
export const byteSize: FlagForm<number> = formOf('SIZE', parseByteSize)
export const setting = (placeholder: string): FlagForm<Setting> => formOf(placeholder, parseSetting)
export const restrictedApis: FlagForm<RestrictedApis> = formOf('API,API:KEY=VALUE', (flag, value) =>
  parseRestrictedApis(flag, value),
)
/** One API may be named in one group only. */
export function restrictedBy(
  flag: string,
  values: readonly string[],
  parse: FlagForm<RestrictedApis>['parse'] = restrictedApis.parse,
): RestrictedApis[] {
  const groups = values.map((value) => parse(flag, value))
  const seen = new Set<string>()
  for (const api of groups.flatMap((group) => group.apis)) {
    if (seen.has(api)) {
      throw badOption(
        flag,
        `restricted ${restrictedNoun(flag)} '${api}' can not be specified in multiple config groups`,
      )
    }
    seen.add(api)
  }
  return groups
}

/** Two numbers with `between` between them, in Triton's words. A number with more behind it is refused. */
export const numberPair = (placeholder: string, between: ':' | '-'): FlagForm<string> =>
  formOf(placeholder, (flag, given) => {
    const parts = given.split(between)
    if (parts.length !== 2) {
      const format = `--<pair option> argument requires format <first>${between}<second>. Found: ${given}`
      throw badOption(flag, `Cannot parse pair option due to incorrect number of inputs.${format}`)
    }
    requireDigits(flag, parts[0] ?? '', whole)
    requireDigits(flag, parts[1] ?? '', between === ':' ? decimal : whole)
    return given
  })

const whole = /^\d+$/
/** As C++ reads them: `.5` and `5e-1`, too. */
const decimal = /^(\d+\.?\d*|\.\d+)(e[-+]?\d{1,3})?$/i

/** A number as `8` or `0.5`. */
export function requireDigits(flag: string, given: string, digits = decimal): void {
  if (digits.test(given)) return
  throw badOption(flag, `Invalid option value. Got ${given}\nexpected a ${digits === whole ? 'whole ' : ''}number`)
}

/** A text that must match the pattern. */
export const matching = (placeholder: string, pattern: RegExp, format: string): FlagForm<string> =>
  formOf(placeholder, (flag, given) => {
    if (pattern.test(given)) return given
    throw badOption(flag, `--${flag} option format is '${format}'. Got ${given}`)
  })

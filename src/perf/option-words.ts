// The command line as getopt_long reads it: `-m simple`, `-msimple`, `-va`, `--flag value`, `--flag=value`, and `--fl` for
// `--flag` when nothing else begins like that.

import { nearestWord } from '../base/nearest-word.ts'
import { perfOptions, type PerfOptionSpec } from './option-table.ts'

/** A mistake on the command line, with the text for the user. */
export class OptionError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'OptionError'
  }
}

/** Values by long name, in the order in which they came; a switch has '' as often as it was given. */
export type OptionWords = ReadonlyMap<string, readonly string[]>

const byName: ReadonlyMap<string, PerfOptionSpec> = new Map(perfOptions.map((spec) => [spec.name, spec]))
const byLetter: ReadonlyMap<string, PerfOptionSpec> = new Map(
  perfOptions.filter((spec) => spec.short !== '').map((spec) => [spec.short, spec]),
)

export function readOptionWords(args: readonly string[]): OptionWords {
  const words = new Map<string, string[]>()
  const add = ({ name }: PerfOptionSpec, value: string): void =>
    void words.set(name, [...(words.get(name) ?? []), value])
  for (let at = 0; at < args.length; at++) {
    const word = args[at] as string
    const valueAfter = (shown: string): string => {
      const value = args[++at]
      if (value === undefined) throw new OptionError(`option '${shown}' requires an argument`)
      return value
    }
    if (word.startsWith('--')) {
      const equals = word.indexOf('=')
      const spec = specOf(word.slice(2, equals < 0 ? undefined : equals))
      const { name } = spec
      if (spec.value === '' && equals >= 0) throw new OptionError(`option '--${name}' doesn't allow an argument`)
      add(spec, spec.value === '' ? '' : equals >= 0 ? word.slice(equals + 1) : valueAfter(`--${name}`))
    } else if (word.startsWith('-') && word.length > 1) {
      for (let letter = 1; letter < word.length; letter++) {
        const spec = byLetter.get(word[letter] as string)
        if (spec === undefined) throw new OptionError(`invalid option -- '${word[letter]}'`)
        if (spec.value === '') {
          add(spec, '')
          continue
        }
        const rest = word.slice(letter + 1)
        add(spec, rest === '' ? valueAfter(`-${spec.short}`) : rest)
        break
      }
    } else {
      throw new OptionError(`there is no option '${word}'; the model is named with -m ${word}`)
    }
  }
  return words
}

function specOf(name: string): PerfOptionSpec {
  const exact = byName.get(name)
  if (exact !== undefined) return exact
  const [first, second, ...more] = name === '' ? [] : perfOptions.filter((spec) => spec.name.startsWith(name))
  if (first === undefined) throw unknownOption(name)
  if (second === undefined) return first
  const possible = [first, second, ...more].map((spec) => `'--${spec.name}'`)
  throw new OptionError(`option '--${name}' is ambiguous; possibilities: ${possible.join(' ')}`)
}

function unknownOption(name: string): OptionError {
  const near = nearestWord(name, byName.keys())
  return new OptionError(`unrecognized option '--${name}'${near === null ? '' : `; did you mean '--${near}'?`}`)
}

// Reads values of the command line, and refuses bad values with perf_analyzer's texts.

import { OptionError, type OptionWords } from './option-words.ts'
import { perfOptions } from './option-table.ts'

/** perf_analyzer's names in errors for options that have only a letter there. */
const letterTitles: Readonly<Record<string, string>> = {
  'batch-size': '-b (batch size)',
  filename: '-f',
  'model-name': '-m (model name)',
  protocol: '-i (protocol)',
  url: '-u',
}

function titleOf(name: string): string {
  const known = letterTitles[name]
  if (known !== undefined) return known
  const short = perfOptions.find((option) => option.name === name)?.short ?? ''
  return short === '' ? `--${name}` : `--${name} (-${short})`
}

export const failedToParse = (name: string, why: string): OptionError =>
  new OptionError(`Failed to parse ${titleOf(name)}. ${why}`)

export class WordReader {
  readonly words: OptionWords

  constructor(words: OptionWords) {
    this.words = words
  }

  last(name: string): string | undefined {
    return this.words.get(name)?.at(-1)
  }

  all(name: string): readonly string[] {
    return this.words.get(name) ?? []
  }

  /** `unit` follows the bound in the refusal. */
  integer(name: string, fallback: number, least = -Infinity, unit = ''): number {
    const text = this.last(name)
    if (text === undefined) return fallback
    if (!/^-?\d{1,15}$/.test(text)) throw failedToParse(name, `Invalid value provided: ${text}`)
    const value = Number(text)
    if (value < least) {
      throw failedToParse(name, `The value must be ${least === 1 ? '> 0' : `>= ${least}`}${unit}.`)
    }
    return value
  }

  atLeastZero(name: string, fallback: number): number {
    const text = this.last(name)
    if (text === undefined) return fallback
    const value = Number(text)
    if (text.trim() === '' || !Number.isFinite(value)) throw failedToParse(name, `Invalid value provided: ${text}`)
    if (value < 0) throw failedToParse(name, 'The value must be >= 0.0.')
    return value
  }

  choice<Word extends string>(name: string, known: readonly Word[], fallback: Word): Word {
    const text = this.last(name)
    if (text === undefined) return fallback
    const found = known.find((word) => word === text)
    if (found === undefined) throw unsupported(name, text, known)
    return found
  }
}

export function unsupported(name: string, text: string, known: readonly string[]): OptionError {
  const quoted = known.map((word) => `'${word}'`)
  const last = quoted.pop() ?? ''
  const list = `${quoted.join(', ')}${quoted.length > 1 ? ',' : ''} or ${last}`
  return failedToParse(name, `Unsupported type provided: '${text}'. The available options are ${list}.`)
}

// Reads values of a file that people write. What breaks a rule is reported with its key, the rule and what is there, and the
// reader goes on: a person sees all mistakes at once.

import { cutText, describedValue } from './described-value.ts'
import { nearestWord } from './nearest-word.ts'

export type Position = { readonly line: number; readonly column: number }

/** `message` names the key, what was expected and what is there; `fix` says what to do, '' when the message is enough. */
export type PlanProblem = {
  readonly key: string
  readonly message: string
  readonly fix: string
  readonly position: Position | null
}

type Keys = readonly string[]
type Mapping = Readonly<Record<string, unknown>>

const maxTextChars = 4096
const maxProblems = 50
const unitNs: Readonly<Record<string, number>> = { s: 1e9, m: 60e9, h: 3600e9, d: 86_400e9 }
const longestDays = 365

/** A value and where it stands. Every method returns null after it has reported what is wrong. */
export class PlanValue {
  readonly value: unknown
  readonly keys: Keys
  readonly #report: (keys: Keys, message: string, fix: string) => void

  constructor(value: unknown, keys: Keys, report: (keys: Keys, message: string, fix: string) => void) {
    this.value = value
    this.keys = keys
    this.#report = report
  }

  /** YAML's null counts as not there. */
  get isThere(): boolean {
    return this.value !== undefined && this.value !== null
  }

  get isText(): boolean {
    return typeof this.value === 'string'
  }

  get isMapping(): boolean {
    return typeof this.value === 'object' && this.value !== null && !Array.isArray(this.value)
  }

  /** `rule` completes "'steps.0.weight' …". */
  fail(rule: string, fix = ''): null {
    const path = pathOf(this.keys)
    const subject = path === '' ? 'the file' : `'${path}'`
    this.#report(this.keys, `${subject} ${rule}`, fix)
    return null
  }

  /** "'x' must be `expected`, got …". */
  mustBe(expected: string, fix = ''): null {
    return this.fail(`must be ${expected}, got ${describedValue(this.value)}`, fix)
  }

  /** The values of a mapping by key. Keys that are not among `known` are reported. */
  fields<Key extends string>(known: readonly Key[], example = ''): Readonly<Record<Key, PlanValue>> | null {
    if (!this.isMapping) return this.mustBe('a mapping of keys to values', example)
    const mapping = this.value as Mapping
    let unknownCount = 0
    for (const key of Object.keys(mapping)) {
      if ((known as readonly string[]).includes(key)) continue
      // Further ones would not be told, and to look for their nearest words costs microseconds each.
      if (++unknownCount > maxProblems) break
      const near = key.length > 40 ? null : nearestWord(key, known)
      this.#at(key).fail('is not a key that is known', near === null ? `known keys: ${known.join(', ')}` : `did you mean '${near}'?`) // prettier-ignore
    }
    return Object.fromEntries(known.map((key) => [key, this.#at(key)])) as Record<Key, PlanValue>
  }

  /** The values of a mapping whose keys are names of the writer's own. */
  entries(most: number, example = ''): (readonly [string, PlanValue])[] | null {
    if (!this.isMapping) return this.mustBe('a mapping of names to values', example)
    const names = Object.keys(this.value as Mapping)
    if (names.length > most) return this.fail(`must have at most ${most} keys, got ${names.length}`)
    return names.map((name) => [name, this.#at(name)] as const)
  }

  items(most: number, example = ''): PlanValue[] | null {
    const { value } = this
    if (!Array.isArray(value)) return this.mustBe('a list', example)
    if (value.length > most) return this.fail(`must have at most ${most} items, got ${value.length}`)
    return value.map((item, i) => new PlanValue(item, [...this.keys, String(i)], this.#report))
  }

  text(expected = 'text'): string | null {
    const { value } = this
    if (typeof value !== 'string') {
      return this.mustBe(expected, typeof value === 'number' || typeof value === 'boolean' ? 'put it in quotes' : '')
    }
    if (value.length > maxTextChars)
      return this.fail(`must have at most ${maxTextChars} characters, got ${value.length}`)
    return value
  }

  /** A text alone stands for a list of one. */
  texts(most = 100): string[] | null {
    if (this.isText) return [this.value as string]
    const items = this.items(most)
    const texts = items?.map((item) => item.text()) ?? [null]
    return texts.includes(null) ? null : (texts as string[])
  }

  word<Word extends string>(words: readonly Word[]): Word | null {
    const { value } = this
    if ((words as readonly unknown[]).includes(value)) return value as Word
    const near = typeof value === 'string' ? nearestWord(value, words) : null
    return this.mustBe(`one of ${words.join(', ')}`, near === null ? '' : `did you mean '${near}'?`)
  }

  flag(): boolean | null {
    return typeof this.value === 'boolean' ? this.value : this.mustBe('true or false')
  }

  number(least: number, most: number): number | null {
    const { value } = this
    if (typeof value === 'number' && value >= least && value <= most) return value
    return this.mustBe(most === Infinity ? `a number of at least ${least}` : `a number from ${least} to ${most}`)
  }

  integer(least: number, most: number): number | null {
    const { value } = this
    if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return value as number
    return this.mustBe(`a whole number from ${least} to ${most}`)
  }

  /** `90s`, `10m`, `2h`, `7d` → nanoseconds. */
  durationNs(): number | null {
    const [, count, unit = ''] = /^([0-9]{1,9})(s|m|h|d)$/.exec(String(this.value)) ?? []
    const ns = Number(count) * (unitNs[unit] ?? NaN)
    if (typeof this.value !== 'string' || !(ns > 0)) return this.mustBe('a time, as 90s, 10m, 2h or 7d')
    return ns <= longestDays * 86_400e9 ? ns : this.mustBe(`a time of at most ${longestDays}d`)
  }

  /** Per cent with at most two decimals, with or without the sign → hundredths of a per cent. */
  weight(): number | null {
    const percent = typeof this.value === 'string' ? percentOf(this.value) : this.value
    const expected = 'a share from 0 to 100 per cent'
    if (typeof percent !== 'number' || !(percent >= 0 && percent <= 100)) return this.mustBe(expected)
    const hundredths = Math.round(percent * 100)
    if (Math.abs(hundredths - percent * 100) > 1e-6) return this.mustBe(`${expected} with at most two decimals`)
    return hundredths
  }

  /** `20%` or 0.2 → 0.2. A plain number of 1 or more could mean either, and is refused. */
  share(most = 1): number | null {
    const { value } = this
    const percent = typeof value === 'string' ? percentOf(value) : null
    if (percent !== null && percent >= 0 && percent / 100 <= most) return percent / 100
    if (typeof value === 'number' && value >= 0 && value < 1) return value
    const fix = typeof value === 'number' && value >= 1 ? `write '${value}%' for ${value} per cent` : ''
    return this.mustBe(`a share, as 20% or 0.2, of at most ${most * 100}%`, fix)
  }

  url(): string | null {
    const text = this.text('an http or https URL')
    if (text === null) return null
    const url = URL.parse(text)
    const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
    // fetch takes none, and its error repeats the address with all that is in it.
    if (isHttp && `${url.username}${url.password}` !== '') return this.fail('must have no user and no password in it')
    return isHttp ? text : this.mustBe('an http or https URL')
  }

  #at(key: string): PlanValue {
    const mapping = this.value as Mapping
    const value = Object.hasOwn(mapping, key) ? mapping[key] : undefined
    return new PlanValue(value, [...this.keys, key], this.#report)
  }
}

/** Collects what is reported. `positionOf` tells where the value of a key stands in the text. */
export class PlanProblems {
  readonly #found: PlanProblem[] = []
  readonly #positionOf: (keys: Keys) => Position | null

  constructor(positionOf: (keys: Keys) => Position | null) {
    this.#positionOf = positionOf
  }

  root(value: unknown): PlanValue {
    return new PlanValue(value, [], (keys, message, fix) => {
      if (this.#found.length >= maxProblems) return
      this.#found.push({ key: pathOf(keys), message, fix, position: this.#positionOf(keys) })
    })
  }

  list(): readonly PlanProblem[] {
    return this.#found.toSorted((a, b) => (a.position?.line ?? 0) - (b.position?.line ?? 0))
  }
}

function percentOf(text: string): number | null {
  const [, digits] = /^([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%$/.exec(text) ?? []
  return digits === undefined ? null : Number(digits)
}

const pathOf = (keys: Keys): string => cutText(keys.join('.'))

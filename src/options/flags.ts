import type { Flag, FlagValues } from './flag.ts'
import { parseBoolean } from './flag-forms.ts'
import { flagsByName, flagTable } from './flag-table.ts'

/** The value of every flag: the one that was given, else its default. */
export class Flags implements FlagValues {
  readonly #given: ReadonlyMap<string, readonly string[]>
  readonly #hasTritonDefaults: boolean

  constructor(given: ReadonlyMap<string, readonly string[]>) {
    this.#given = given
    this.#hasTritonDefaults = parseBoolean('triton-defaults', given.get('triton-defaults')?.at(-1) ?? 'false')
  }

  isGiven(name: string): boolean {
    return this.#given.has(name)
  }

  all(name: string): readonly string[] {
    return this.#given.get(name) ?? []
  }

  text(name: string): string {
    const { default: byDefault, traits } = flagNamed(name)
    return this.#given.get(name)?.at(-1) ?? (this.#hasTritonDefaults ? traits.tritonDefault : byDefault)
  }

  isOn(name: string): boolean {
    return parseBoolean(name, this.text(name))
  }

  number(name: string): number {
    const value = flagNamed(name).form.parse(name, this.text(name))
    if (typeof value !== 'number') throw new TypeError(`--${name} is not a number`)
    return value
  }

  /** Flags that were given, that this version does not act on, and whose value asks for something. */
  withoutEffect(): string[] {
    return flagTable
      .filter(({ name, traits }) => traits.status === 'accepted' && this.#given.has(name))
      .filter((flag) => !isHarmless(flag, this.text(flag.name)))
      .map(({ name }) => `--${name}`)
  }
}

function isHarmless({ name, form, traits: { harmlessValue } }: Flag, value: string): boolean {
  return harmlessValue !== '' && form.parse(name, value) === form.parse(name, harmlessValue)
}

function flagNamed(name: string): Flag {
  const flag = flagsByName.get(name)
  if (flag === undefined) throw new TypeError(`there is no flag --${name}`)
  return flag
}

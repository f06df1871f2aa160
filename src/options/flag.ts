// One flag of `galatea serve`, and the field of ServerOptions that its value goes to. Who adds a flag adds a row of this kind
// to the table of its subject, and a field to the options.

import { parseSetting, type FlagForm, type Setting } from './flag-forms.ts'
import type { LeafPath, OptionPath, PathOf, ValueAt } from './option-path.ts'

/** What was said about flags, by their names without the dashes. */
export interface FlagValues {
  /** Whether somebody set the flag, on the command line or in the environment. */
  isGiven(name: string): boolean
  /** All values of a repeatable flag, in order. */
  all(name: string): readonly string[]
  /** The last value given, else the default; '' when there is neither. */
  text(name: string): string
  isOn(name: string): boolean
  /** The value of a flag whose form is a number. A time in seconds is read as milliseconds. */
  number(name: string): number
}

export type Surroundings = {
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Galatea's own version. */
  readonly version: string
  /** Where the example models lie. */
  readonly examplesPath: string
}

/** Reads the value of a field from the flags. Undefined leaves the field as it is. */
export type ReadOption = (flags: FlagValues, surroundings: Surroundings) => unknown

/**
 * works: does what it says. accepted: Triton's flag that this version takes, checks for form and does not act on.
 * deprecated: still works; the help names what to use instead.
 */
type FlagStatus = 'works' | 'accepted' | 'deprecated'

type Traits = {
  readonly status?: FlagStatus
  readonly isRepeatable?: boolean
  /** The default with --triton-defaults, where it differs. */
  readonly tritonDefault?: string
  /** With this value an accepted flag asks only for what happens anyway, and no warning is written. */
  readonly harmlessValue?: string
  /** Whether Triton has the flag too. */
  readonly isTritons?: boolean
}

export const accepted: Traits = { status: 'accepted' }
export const deprecated: Traits = { status: 'deprecated' }
export const ours: Traits = { isTritons: false }
export const repeatable: Traits = { isRepeatable: true }

/** T is the type of the flag's values; P are the paths of the fields that the flag fills. */
export class Flag<T = unknown, P extends string = string> {
  /** Without the dashes. */
  readonly name: string
  readonly form: FlagForm<T>
  /** As a user would type it; '' when there is none. */
  readonly default: string
  readonly help: string
  readonly traits: Required<Traits>
  readonly targets: readonly (readonly [path: P, read: ReadOption])[]
  /** The flag whose target reads this one too; '' where there is none. */
  readonly reader: string

  constructor(
    row: Pick<Flag<T>, 'name' | 'form' | 'default' | 'help' | 'traits'>,
    targets: Flag<T, P>['targets'] = [],
    reader = '',
  ) {
    this.name = row.name
    this.form = row.form
    this.default = row.default
    this.help = row.help
    this.traits = row.traits
    this.targets = targets
    this.reader = reader
  }

  /** Puts the flag's own value into that field. */
  to<Q extends PathOf<T>>(path: Q): Flag<T, P | Q> {
    return this.#with(path, (flags) => this.form.parse(this.name, flags.text(this.name)))
  }

  /** Puts what `read` makes of several values or flags into that field. `read` is not called while that part is off. */
  set<Q extends OptionPath>(
    path: Q,
    read: (flags: FlagValues, surroundings: Surroundings) => ValueAt<Q>,
  ): Flag<T, P | Q> {
    return this.#with(path, read)
  }

  /** The value false turns this part of the options off: the part is null. */
  switches(part: 'http' | 'grpc' | 'metrics'): this {
    const read: ReadOption = (flags) => (flags.isOn(this.name) ? undefined : null)
    return new Flag(this, [...this.targets, [part as P, read]]) as this
  }

  /** The flag of this name reads the value together with its own. */
  readBy(name: string): Flag<T, P> {
    return new Flag(this, this.targets, name)
  }

  #with<Q extends string>(path: Q, read: ReadOption): Flag<T, P | Q> {
    return new Flag<T, P | Q>(this, [...this.targets, [path, read]])
  }
}

export function flag<T>(
  name: string,
  form: FlagForm<T>,
  byDefault: string,
  help: string,
  traits: Traits = {},
): Flag<T, never> {
  const { status = 'works', isRepeatable = false, tritonDefault = byDefault } = traits
  const { harmlessValue = '', isTritons = true } = traits
  const all = { status, isRepeatable, tritonDefault, harmlessValue, isTritons }
  return new Flag({ name, form, default: byDefault, help, traits: all })
}

/** Fields that none of the flags fills. */
type Unfilled<P extends string> = { [L in LeafPath]: L extends P | `${P}.${string}` ? never : L }[LeafPath]

/** The type of all flags in groups. While a field is unfilled, the type asks for a group of that field's name. */
export type FlagGroups<P extends string> = [Unfilled<P>] extends [never]
  ? Readonly<Record<string, readonly Flag[]>>
  : Readonly<Record<Unfilled<P>, readonly Flag[]>>

export const settingsOf = (flags: FlagValues, name: string): Setting[] =>
  flags.all(name).map((value) => parseSetting(name, value))

export const unique = (words: readonly string[]): string[] => [...new Set(words)]

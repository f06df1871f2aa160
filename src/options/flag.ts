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
type ReadOption = (flags: FlagValues, surroundings: Surroundings) => unknown

type Traits = {
  /** accepted: checked for its form, without effect. deprecated: works; the help names what to use instead. */
  readonly status?: 'works' | 'accepted' | 'deprecated'
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
  readonly traits: Required<Traits>
  help = ''
  readonly targets: (readonly [path: P, read: ReadOption])[] = []
  /** The flag whose target reads this one too; '' where there is none. */
  reader = ''

  constructor(name: string, form: FlagForm<T>, byDefault: string, traits: Traits) {
    this.name = name
    this.form = form
    this.default = byDefault
    const others = { status: 'works', isRepeatable: false, harmlessValue: '', isTritons: true } as const
    this.traits = { ...others, tritonDefault: byDefault, ...traits }
  }

  says(help: string): this {
    this.help = help
    return this
  }

  /** Puts the flag's own value into that field. */
  to<Q extends PathOf<T>>(path: Q): Flag<T, P | Q> {
    return this.#fill(path, (flags) => this.form.parse(this.name, flags.text(this.name)))
  }

  /** Puts what `read` makes of several values or flags into that field. `read` is not called while that part is off. */
  set<Q extends OptionPath>(path: Q, read: (...from: Parameters<ReadOption>) => ValueAt<Q>): Flag<T, P | Q> {
    return this.#fill(path, read)
  }

  /** The value false turns this part of the options off: the part is null. */
  switches(
    part: 'http' | 'grpc' | 'metrics' | 'sagemaker' | 'vertexAi' | 'tfserving' | 'torchserve' | 'jobs',
  ): Flag<T, P> {
    return this.#fill<never>(part as never, (flags) => (flags.isOn(this.name) ? undefined : null))
  }

  /** The flag of this name reads the value together with its own. */
  readBy(name: string): this {
    this.reader = name
    return this
  }

  #fill<Q extends string>(path: Q, read: ReadOption): Flag<T, P | Q> {
    const flag = this as unknown as Flag<T, P | Q>
    flag.targets.push([path, read])
    return flag
  }
}

/** A row of the table; `says` and where its value goes follow. */
export const flag = <T>(name: string, form: FlagForm<T>, byDefault: string, traits: Traits = {}): Flag<T, never> =>
  new Flag(name, form, byDefault, traits)

/** Fields that none of the flags fills. */
type Unfilled<P extends string> = { [L in LeafPath]: L extends P | `${P}.${string}` ? never : L }[LeafPath]

/** The type of all flags in groups. While a field is unfilled, the type asks for a group of that field's name. */
export type FlagGroups<P extends string> = [Unfilled<P>] extends [never]
  ? Readonly<Record<string, readonly Flag[]>>
  : Readonly<Record<Unfilled<P>, readonly Flag[]>>

export const settingsOf = (flags: FlagValues, name: string): Setting[] =>
  flags.all(name).map((value) => parseSetting(name, value))

export const unique = (words: readonly string[]): string[] => [...new Set(words)]

/** In Triton a pattern that is given and empty matches every name; without the flag nothing is forwarded. */
export const forwardPattern = (flags: FlagValues, name: string): string =>
  flags.isGiven(name) && flags.isOn('triton-defaults') && flags.text(name) === '' ? '(?:)' : flags.text(name)

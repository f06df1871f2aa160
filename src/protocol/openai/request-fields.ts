import { describedValue } from '../../base/described-value.ts'
import { badRequest, type OpenAiProblem } from './openai-problem.ts'

export type JsonObject = Readonly<Record<string, unknown>>

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The members of a JSON object, each read once and checked. A member that is null counts as left out, as OpenAI has it. */
export class RequestFields {
  readonly #object: JsonObject
  readonly #path: string

  constructor(object: JsonObject, path = '') {
    this.#object = object
    this.#path = path
  }

  param(name: string): string {
    return this.#path === '' ? name : `${this.#path}.${name}`
  }

  raw(name: string): unknown {
    return Object.hasOwn(this.#object, name) ? (this.#object[name] ?? null) : null
  }

  has(name: string): boolean {
    return this.raw(name) !== null
  }

  wrong(name: string, expected: string): OpenAiProblem {
    const param = this.param(name)
    return badRequest(`'${param}' must be ${expected}, got ${describedValue(this.raw(name))}`, param)
  }

  text(name: string): string | null {
    const value = this.raw(name)
    if (value === null || typeof value === 'string') return value
    throw this.wrong(name, 'a string')
  }

  requiredText(name: string): string {
    const value = this.text(name)
    if (value === null || value === '') {
      throw badRequest(`you must provide '${this.param(name)}', a string that is not empty`, this.param(name))
    }
    return value
  }

  flag(name: string): boolean | null {
    const value = this.raw(name)
    if (value === null || typeof value === 'boolean') return value
    throw this.wrong(name, 'true or false')
  }

  number(name: string, least: number, most: number): number | null {
    const value = this.raw(name)
    if (value === null) return null
    if (typeof value === 'number' && value >= least && value <= most) return value
    throw this.wrong(name, `a number ${rangeText(least, most)}`)
  }

  integer(name: string, least: number, most: number): number | null {
    const value = this.raw(name)
    if (value === null) return null
    if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return value as number
    throw this.wrong(name, `an integer ${rangeText(least, most)}`)
  }

  list(name: string, most: number): readonly unknown[] | null {
    const value = this.raw(name)
    if (value === null) return null
    if (!Array.isArray(value)) throw this.wrong(name, 'a list')
    if (value.length <= most) return value
    const param = this.param(name)
    throw badRequest(`'${param}' has ${value.length} entries, at most ${most} are taken`, param)
  }

  object(name: string): JsonObject | null {
    const value = this.raw(name)
    if (value === null || isObject(value)) return value
    throw this.wrong(name, 'an object')
  }

  /** The members of the object of this name; null: there is none. */
  inner(name: string): RequestFields | null {
    const value = this.object(name)
    return value === null ? null : new RequestFields(value, this.param(name))
  }
}

function rangeText(least: number, most: number): string {
  if (most >= Number.MAX_SAFE_INTEGER)
    return least <= Number.MIN_SAFE_INTEGER ? 'in the safe range' : `of at least ${least}`
  return `from ${least} to ${most}`
}

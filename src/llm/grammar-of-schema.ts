// Makes a GBNF grammar of a JSON schema, so that a model can only say what the schema allows. What a grammar cannot keep is
// refused by name: a client that asks for a rule must not get answers that break it.

import { percentDecoded } from '../base/percent-decoded.ts'
import { ServerError } from '../base/server-error.ts'
import { integerRange } from './integer-range.ts'
import { oneOfTexts } from './one-of-texts.ts'

const schemaLimits = { nested: 64, rules: 4096, repetitions: 2000, choices: 2048 } as const

type Schema = Readonly<Record<string, unknown>>

/** Rules that other rules use. A space between parts is short, so that a model does not write spaces for ever. */
const basics: Readonly<Record<string, string>> = {
  space: String.raw`| " " | "\n"{1,2} [ \t]{0,20}`,
  char: String.raw`[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt/] | "u" [0-9a-fA-F]{4})`,
  string: String.raw`"\"" char* "\""`,
  integer: '"-"? ("0" | [1-9] [0-9]{0,15})',
  number: 'integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?',
  boolean: '"true" | "false"',
  null: '"null"',
  value: 'object | array | string | number | boolean | null',
  object: '"{" space (member ("," space member)*)? space "}"',
  member: 'string space ":" space value',
  array: '"[" space (value (space "," space value)*)? space "]"',
  hex: '[0-9a-fA-F]',
  date: '[0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [1-2] [0-9] | "3" [0-1])',
  time: '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{3})? ("Z" | [+-] [0-9]{2} ":" [0-9]{2})',
  uuid: 'hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}',
}

const formats: Readonly<Record<string, string>> = {
  date: String.raw`"\"" date "\""`,
  time: String.raw`"\"" time "\""`,
  'date-time': String.raw`"\"" date "T" time "\""`,
  uuid: String.raw`"\"" uuid "\""`,
}

/** Rules of JSON schemas that no grammar here keeps. */
const unkept = [
  'pattern', 'patternProperties', 'not', 'if', 'then', 'else', 'dependentRequired', 'dependentSchemas', 'contains', 'minContains',
  'maxContains', 'uniqueItems', 'multipleOf', 'minProperties', 'maxProperties', 'propertyNames', 'unevaluatedProperties',
  'unevaluatedItems', '$dynamicRef',
] // prettier-ignore

const typeNames = ['string', 'number', 'integer', 'boolean', 'null', 'object', 'array']

/** `text` is the JSON of a schema. Throws INVALID_ARG for a schema that cannot be kept. */
export function grammarOfSchema(text: string): string {
  let schema: unknown
  try {
    schema = JSON.parse(text)
  } catch {
    throw refusal('is no JSON', text.slice(0, 60))
  }
  return new SchemaGrammar(schema).text()
}

function refusal(problem: string, found?: unknown): ServerError {
  const shown = found === undefined ? '' : `: ${(JSON.stringify(found) ?? 'nothing').slice(0, 100)}`
  return ServerError.withoutStack('INVALID_ARG', `sampling_parameters: 'json_schema' ${problem}${shown}`)
}

/** A text as GBNF writes it. */
const literal = (text: string): string => JSON.stringify(text)
const jsonLiteral = (value: unknown): string => literal(JSON.stringify(value))

const isRecord = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

class SchemaGrammar {
  readonly #root: unknown
  readonly #rules: [name: string, body: string][] = []
  /** The rule of each `$ref`, so that a schema may contain itself. */
  readonly #references = new Map<string, string>()

  constructor(root: unknown) {
    this.#root = root
  }

  text(): string {
    const body = this.#expression(this.#root, 0)
    const own = [['root', `${body} space`], ...this.#rules].map(([name = '', rule = '']) => `${name} ::= ${rule}`)
    return [...own, ...Object.entries(basics).map(([name, rule]) => `${name} ::= ${rule}`)].join('\n') + '\n'
  }

  #rule(body: string): string {
    if (this.#rules.length >= schemaLimits.rules) throw refusal(`needs more than ${schemaLimits.rules} rules`)
    const name = `r${this.#rules.length}`
    this.#rules.push([name, body])
    return name
  }

  #expression(schema: unknown, depth: number): string {
    if (depth > schemaLimits.nested) throw refusal(`is nested more than ${schemaLimits.nested} deep`)
    if (schema === true) return 'value'
    if (!isRecord(schema)) throw refusal('must be an object, or true', schema)
    for (const key of unkept) {
      const value = schema[key]
      if (value !== undefined && value !== false) throw refusal(`has '${key}', which answers cannot be held to`, value)
    }
    if (typeof schema['$ref'] === 'string') return this.#reference(schema['$ref'], depth)
    if ('const' in schema) return jsonLiteral(schema['const'])
    if ('enum' in schema) return this.#choice(schema['enum'])
    const options = schema['anyOf'] ?? schema['oneOf']
    if (options !== undefined) return this.#either(options, depth)
    if (schema['allOf'] !== undefined) return this.#expression(this.#joined(schema, schema['allOf']), depth + 1)
    return this.#typed(schema, depth)
  }

  #reference(reference: string, depth: number): string {
    const known = this.#references.get(reference)
    if (known !== undefined) return known
    const target = this.#find(reference)
    const name = this.#rule('')
    this.#references.set(reference, name)
    const place = Number(name.slice(1))
    this.#rules[place] = [name, this.#expression(target, depth + 1)]
    return name
  }

  #find(reference: string): unknown {
    if (!reference.startsWith('#')) throw refusal(`has a '$ref' to another document`, reference)
    let target: unknown = this.#root
    for (const part of reference.split('/').slice(1)) {
      const key = decodedOf(part).replaceAll('~1', '/').replaceAll('~0', '~')
      target = isRecord(target) && Object.hasOwn(target, key) ? target[key] : undefined
    }
    if (target === undefined) throw refusal(`has a '$ref' to nothing`, reference)
    return target
  }

  #choice(values: unknown): string {
    if (!Array.isArray(values) || values.length === 0) throw refusal("has an 'enum' that is no list of values", values)
    if (values.length > schemaLimits.choices) {
      throw refusal(`has an 'enum' of more than ${schemaLimits.choices} values`, values.length)
    }
    return oneOfTexts(values.map((value) => JSON.stringify(value)))
  }

  #either(options: unknown, depth: number): string {
    if (!Array.isArray(options) || options.length === 0)
      throw refusal("has an 'anyOf' or 'oneOf' that is no list", options)
    if (options.length > schemaLimits.choices) throw refusal(`has more than ${schemaLimits.choices} choices`)
    return this.#rule(options.map((option) => this.#expression(option, depth + 1)).join(' | '))
  }

  /** All parts together, as one schema. */
  #joined(schema: Schema, parts: unknown): Schema {
    if (!Array.isArray(parts)) throw refusal("has an 'allOf' that is no list", parts)
    const { allOf: _, ...own } = schema
    const joined: Record<string, unknown> = { ...own }
    for (const part of parts) {
      const found = isRecord(part) && typeof part['$ref'] === 'string' ? this.#find(part['$ref']) : part
      if (!isRecord(found)) throw refusal("has a part of 'allOf' that is no object", part)
      for (const [key, value] of Object.entries(found)) joined[key] = joinedValue(joined[key], value, key)
    }
    return joined
  }

  #typed(schema: Schema, depth: number): string {
    const { type } = schema
    if (Array.isArray(type)) {
      if (type.length === 0 || type.length > typeNames.length)
        throw refusal("has a 'type' that is no list of types", type)
      return this.#rule(type.map((one) => this.#expression({ ...schema, type: one }, depth + 1)).join(' | '))
    }
    switch (type) {
      case 'string':
        return this.#string(schema)
      case 'integer':
        return this.#integer(schema)
      case 'number':
        for (const key of ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum']) {
          if (schema[key] !== undefined) throw refusal(`has '${key}' for a number: it can be kept for integers only`)
        }
        return 'number'
      case 'boolean':
      case 'null':
        return type
      case 'array':
        return this.#array(schema, depth)
      case 'object':
        return this.#object(schema, depth)
      case undefined:
        if (schema['properties'] !== undefined) return this.#object(schema, depth)
        return schema['items'] !== undefined || schema['prefixItems'] !== undefined
          ? this.#array(schema, depth)
          : 'value'
      default:
        throw refusal(`has an unknown 'type', known are ${typeNames.join(', ')}`, type)
    }
  }

  #string(schema: Schema): string {
    const { format } = schema
    const known = typeof format === 'string' && Object.hasOwn(formats, format) ? formats[format] : undefined
    if (known !== undefined) return known
    const least = count(schema, 'minLength') ?? 0
    const most = count(schema, 'maxLength')
    if (least === 0 && most === null) return 'string'
    if (most !== null && least > most) throw refusal('allows no string', { minLength: least, maxLength: most })
    return String.raw`"\"" char{${least},${most ?? ''}} "\""`
  }

  #integer(schema: Schema): string {
    const bound = (key: string): number | null => {
      const value = schema[key] ?? null
      if (value === null || (typeof value === 'number' && Number.isSafeInteger(value))) return value
      throw refusal(`has a '${key}' that is no whole number`, value)
    }
    const [above, below] = [bound('exclusiveMinimum'), bound('exclusiveMaximum')]
    const least = bound('minimum') ?? (above === null ? null : above + 1)
    const most = bound('maximum') ?? (below === null ? null : below - 1)
    if (least === null && most === null) return 'integer'
    if (least !== null && most !== null && least > most)
      throw refusal('allows no integer', { minimum: least, maximum: most })
    return this.#rule(integerRange(least, most))
  }

  #array(schema: Schema, depth: number): string {
    // Up to draft 7 the list of a tuple stands in 'items', and what follows it in 'additionalItems'.
    const isOld = Array.isArray(schema['items'])
    const first = (isOld ? schema['items'] : schema['prefixItems']) ?? []
    const others = schema[isOld ? 'additionalItems' : 'items']
    if (!Array.isArray(first)) throw refusal("has 'prefixItems' that are no list", first)
    const heads = first.map((item) => this.#rule(this.#expression(item, depth + 1)))
    const least = Math.max(0, (count(schema, 'minItems') ?? 0) - heads.length)
    const most = count(schema, 'maxItems')
    const rest = most === null ? null : most - heads.length
    if (rest !== null && rest < least)
      throw refusal('allows no array', { minItems: schema['minItems'], maxItems: most })
    const isClosed = others === false || (heads.length > 0 && others === undefined)
    if (isClosed && least > 0)
      throw refusal('allows no array', { minItems: schema['minItems'], prefixItems: heads.length })
    const item = isClosed ? null : this.#rule(this.#expression(others ?? true, depth + 1))
    const comma = ' space "," space '
    if (heads.length > 0) {
      const more = item === null || rest === 0 ? '' : ` (${comma}${item}){${least},${rest ?? ''}}`
      return this.#rule(`"[" space ${heads.join(comma)}${more} space "]"`)
    }
    if (item === null || rest === 0) return '"[" space "]"'
    const more = `${item} (${comma}${item}){${Math.max(0, least - 1)},${rest === null ? '' : rest - 1}}`
    return this.#rule(`"[" space ${least === 0 ? `(${more})?` : more} space "]"`)
  }

  #object(schema: Schema, depth: number): string {
    const properties = schema['properties'] ?? {}
    if (!isRecord(properties)) throw refusal("has 'properties' that are no object", properties)
    const required = schema['required'] ?? []
    if (!Array.isArray(required)) throw refusal("has a 'required' that is no list", required)
    const names = Object.keys(properties)
    const unknown = required.find((name) => !names.includes(String(name)))
    const more = schema['additionalProperties'] ?? names.length === 0
    if (unknown !== undefined) throw refusal("requires a property that 'properties' does not describe", unknown)
    const extra = more === false ? null : this.#rule(`string space ":" space ${this.#expression(more, depth + 1)}`)
    const pairs = names.map((name) => {
      return this.#rule(`${jsonLiteral(name)} space ":" space ${this.#expression(properties[name], depth + 1)}`)
    })
    const isRequired = names.map((name) => required.includes(name))
    return this.#rule(`"{" space ${this.#members(pairs, isRequired, extra)} space "}"`)
  }

  /** Members in their order; one that is not required may be left out. The comma stands before all but the first. */
  #members(pairs: readonly string[], isRequired: readonly boolean[], extra: string | null): string {
    const comma = 'space "," space'
    let more = extra === null ? '' : `(${comma} ${extra})*`
    let first = extra === null ? '' : `(${extra} ${more})?`
    for (let i = pairs.length - 1; i >= 0; i--) {
      const pair = pairs[i] as string
      const rest = more === '' ? '' : this.#rule(more)
      first = isRequired[i] === true ? `${pair} ${rest}` : `(${pair} ${rest} | ${first === '' ? '""' : first})`
      if (isRequired[i] !== true && i > 0) first = this.#rule(first)
      more = isRequired[i] === true ? `${comma} ${pair} ${rest}` : `(${comma} ${pair})? ${rest}`
    }
    return first
  }
}

/** A part that is not percent-encoded UTF-8 is taken as it is. */
const decodedOf = (part: string): string => percentDecoded(part) ?? part

function count(schema: Schema, key: string): number | null {
  const value = schema[key] ?? null
  if (value === null) return null
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= schemaLimits.repetitions)
    return value
  throw refusal(`has a '${key}' that is no whole number from 0 to ${schemaLimits.repetitions}`, value)
}

function joinedValue(before: unknown, value: unknown, key: string): unknown {
  if (before === undefined) return value
  if (key === 'properties' && isRecord(before) && isRecord(value)) return { ...before, ...value }
  if (key === 'required' && Array.isArray(before) && Array.isArray(value)) return [...new Set([...before, ...value])]
  if (JSON.stringify(before) === JSON.stringify(value)) return value
  if (['title', 'description', '$schema', '$id', '$defs', 'definitions'].includes(key)) return before
  throw refusal(`has parts of 'allOf' that differ in '${key}'`)
}

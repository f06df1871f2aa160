// Reads config.pbtxt: protobuf text format for ModelConfig, driven by the table in model-config-schema.ts.

import { nearestWord } from '../base/nearest-word.ts'
import {
  emptyMessage,
  modelConfigSchema,
  scalarDefault,
  type FieldSchema,
  type MessageSchema,
} from '../config/model-config-schema.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { FieldPositions } from './field-positions.ts'
import { TextFormatError, type Position } from './text-format-error.ts'
import { readScalar, type ScalarType } from './text-format-scalar.ts'
import { describeToken, TextFormatTokens, type Token } from './text-format-tokens.ts'

type ParsedModelConfig = { readonly config: ModelConfig; readonly positions: FieldPositions }

/** Throws a TextFormatError (INVALID_ARG, `line:column: …`) at the first mistake. */
export function parseModelConfigText(text: string): ParsedModelConfig {
  const { config, positions, errors } = inspectModelConfigText(text)
  const [first] = errors
  if (first !== undefined) throw first
  return { config, positions }
}

/**
 * Reads on after mistakes that leave no doubt where the next field begins (an unknown field, a wrong value, a field
 * given twice), so that `galatea check` can show them all. What could not be read is missing from `config`.
 */
export function inspectModelConfigText(text: string): ParsedModelConfig & { readonly errors: TextFormatError[] } {
  const positions = new FieldPositions()
  const message = emptyMessage(modelConfigSchema())
  const errors: TextFormatError[] = []
  try {
    new TextFormatReader(new TextFormatTokens(text), positions, errors).readFields(
      modelConfigSchema(),
      message,
      '',
      null,
    )
  } catch (reason) {
    if (!(reason instanceof TextFormatError)) throw reason
    errors.push(reason)
  }
  return { config: message as unknown as ModelConfig, positions, errors }
}

/** Another message in text format. Throws a TextFormatError at the first mistake. */
export function parseTextMessage(schema: MessageSchema, text: string): Record<string, unknown> {
  const message = emptyMessage(schema)
  const errors: TextFormatError[] = []
  new TextFormatReader(new TextFormatTokens(text), new FieldPositions(), errors).readFields(schema, message, '', null)
  const [first] = errors
  if (first !== undefined) throw first
  return message
}

type Message = Record<string, unknown>
const closing: Readonly<Record<string, string>> = { '{': '}', '<': '>', '[': ']' }
const maxErrors = 100
const maxSkippedDepth = 64

class TextFormatReader {
  readonly #tokens: TextFormatTokens
  readonly #positions: FieldPositions
  readonly #errors: TextFormatError[]

  constructor(tokens: TextFormatTokens, positions: FieldPositions, errors: TextFormatError[]) {
    this.#tokens = tokens
    this.#positions = positions
    this.#errors = errors
  }

  /** Reads fields up to the bracket that closes `opening`, or to the end of the file when `opening` is null. */
  readFields(schema: MessageSchema, message: Message, path: string, opening: Token | null): void {
    const end = opening === null ? null : closing[opening.text]
    for (;;) {
      const token = this.#tokens.current
      if (end === null ? token.kind === 'end' : this.#isSign(end ?? '')) return
      if (token.kind === 'end' && opening !== null) throw neverClosed(opening, token)
      if (token.kind !== 'identifier') {
        throw new TextFormatError(
          token,
          `expected a field name, found ${describeToken(token)}`,
          strayHint(token, opening),
        )
      }
      this.#readField(schema, message, path)
      if (this.#isSign(',') || this.#isSign(';')) this.#tokens.take()
    }
  }

  #readField(schema: MessageSchema, message: Message, parent: string): void {
    const name = this.#tokens.take()
    const field = schema.byWireName.get(name.text)
    if (field === undefined) {
      this.#report(unknownField(name, schema))
      this.#skipField()
      return
    }
    const path = parent === '' ? name.text : `${parent}.${name.text}`
    this.#positions.set(path, name)
    const conflict = conflictOf(schema, field, message)
    if (conflict !== null) this.#report(new TextFormatError(name, conflict))
    const hasColon = this.#isSign(':')
    if (hasColon) this.#tokens.take()
    const isMessage = field.message !== null || field.kind === 'map'
    if (!hasColon && !isMessage) {
      const found = this.#tokens.current
      throw new TextFormatError(found, `expected ':' after '${name.text}', found ${describeToken(found)}`)
    }
    if (field.kind === 'repeated' || field.kind === 'map') this.#readRepeated(field, message, path, name)
    else this.#readSingle(field, message, path)
  }

  #readSingle(field: FieldSchema, message: Message, path: string): void {
    if (field.message !== null) {
      message[field.name] = this.#readMessage(field.message, path, field.wireName)
      return
    }
    const value = this.#readScalarOrSkip({ type: field.type, enum: field.enum, label: field.wireName })
    if (value !== undefined) message[field.name] = value
  }

  #readRepeated(field: FieldSchema, message: Message, path: string, name: Token): void {
    if (!this.#isSign('[')) {
      this.#readElement(field, message, path, name)
      return
    }
    this.#tokens.take()
    if (this.#isSign(']')) {
      this.#tokens.take()
      return
    }
    for (;;) {
      this.#readElement(field, message, path, this.#tokens.current)
      const next = this.#tokens.current
      if (this.#isSign(']')) break
      if (!this.#isSign(',')) {
        const hint = next.kind === 'end' ? `the list of '${field.wireName}' is not closed` : ''
        throw new TextFormatError(next, `expected ',' or ']', found ${describeToken(next)}`, hint)
      }
      this.#tokens.take()
      if (this.#isSign(']')) {
        throw new TextFormatError(next, "expected another value after ','", 'remove the last comma of the list')
      }
    }
    this.#tokens.take()
  }

  #readElement(field: FieldSchema, message: Message, path: string, at: Position): void {
    if (field.kind === 'map') {
      this.#readMapEntry(field, message[field.name] as Map<unknown, unknown>, path, at)
      return
    }
    const list = message[field.name] as unknown[]
    const elementPath = `${path}[${list.length}]`
    this.#positions.set(elementPath, at)
    if (field.message !== null) {
      list.push(this.#readMessage(field.message, elementPath, field.wireName))
      return
    }
    const value = this.#readScalarOrSkip({ type: field.type, enum: field.enum, label: field.wireName })
    if (value !== undefined) list.push(value)
  }

  #readMessage(schema: MessageSchema, path: string, label: string): Message {
    const opening = this.#takeOpening(label)
    const message = emptyMessage(schema)
    this.readFields(schema, message, path, opening)
    this.#tokens.take()
    return message
  }

  /** `{ key: … value: … }`. Key and value may be left out; of two entries with one key the later counts. */
  #readMapEntry(field: FieldSchema, map: Map<unknown, unknown>, path: string, at: Position): void {
    const opening = this.#takeOpening(field.wireName)
    const end = closing[opening.text] ?? ''
    const keyType: ScalarType = { type: field.keyType ?? 'string', enum: null, label: 'key' }
    let key: unknown
    let value: unknown
    // Positions inside an entry go by its key, so those in a value that stands before its key are lost. Few files have this.
    const entryPath = (): string => `${path}["${String(key ?? scalarDefault(keyType))}"]`
    while (!this.#isSign(end)) {
      const name = this.#tokens.take()
      if (name.kind === 'end') throw neverClosed(opening, name)
      if (name.text !== 'key' && name.text !== 'value') {
        if (name.kind !== 'identifier') {
          throw new TextFormatError(name, `expected 'key' or 'value', found ${describeToken(name)}`)
        }
        const hint = 'an entry is written { key: "…" value: … }'
        this.#report(new TextFormatError(name, `unknown field '${name.text}' in an entry of '${field.wireName}'`, hint))
        this.#skipField()
      } else {
        if ((name.text === 'key' ? key : value) !== undefined) {
          this.#report(new TextFormatError(name, `'${name.text}' is given more than once`))
        }
        this.#takeColon(name, name.text === 'value' && field.message !== null)
        if (name.text === 'key') key = this.#readScalarOrSkip(keyType)
        else if (field.message !== null) value = this.#readMessage(field.message, entryPath(), 'value')
        else value = this.#readScalarOrSkip({ type: field.type, enum: field.enum, label: 'value' })
      }
      if (this.#isSign(',') || this.#isSign(';')) this.#tokens.take()
    }
    this.#tokens.take()
    this.#positions.set(entryPath(), at)
    const empty = field.message === null ? scalarDefault(field) : emptyMessage(field.message)
    map.set(key ?? scalarDefault(keyType), value ?? empty)
  }

  #takeColon(name: Token, isOptional: boolean): void {
    if (this.#isSign(':')) this.#tokens.take()
    else if (!isOptional) {
      const found = this.#tokens.current
      throw new TextFormatError(found, `expected ':' after '${name.text}', found ${describeToken(found)}`)
    }
  }

  #takeOpening(label: string): Token {
    const token = this.#tokens.current
    if (this.#isSign('{') || this.#isSign('<')) return this.#tokens.take()
    const what = `expected '{' to begin '${label}', found ${describeToken(token)}`
    const hint = this.#isSign('[')
      ? `'${label}' is one message, not a list: write ${label} { … }`
      : bareHint(token, label)
    throw new TextFormatError(token, what, hint)
  }

  /** After a wrong value of a single token reading goes on behind the token; any other mistake ends the reading. */
  #readScalarOrSkip(scalar: ScalarType): unknown {
    try {
      return readScalar(this.#tokens, scalar)
    } catch (reason) {
      const { kind } = this.#tokens.current
      if (!(reason instanceof TextFormatError) || kind === 'sign' || kind === 'end') throw reason
      this.#report(reason)
      this.#tokens.take()
      return undefined
    }
  }

  #skipField(): void {
    if (this.#isSign(':')) this.#tokens.take()
    this.#skipValue(0)
  }

  #skipValue(depth: number): void {
    const opening = this.#tokens.current
    const end = opening.kind === 'sign' ? closing[opening.text] : undefined
    if (end !== undefined) {
      if (depth >= maxSkippedDepth) throw new TextFormatError(opening, `nested deeper than ${maxSkippedDepth} levels`)
      this.#tokens.take()
      while (!this.#isSign(end)) {
        if (this.#tokens.current.kind === 'end') throw neverClosed(opening, this.#tokens.current)
        if (this.#tokens.current.kind === 'sign' && closing[this.#tokens.current.text] !== undefined) {
          this.#skipValue(depth + 1)
        } else this.#tokens.take()
      }
      this.#tokens.take()
      return
    }
    if (this.#isSign('-')) this.#tokens.take()
    if (this.#tokens.current.kind === 'string') {
      while (this.#tokens.current.kind === 'string') this.#tokens.take()
    } else if (this.#tokens.current.kind === 'number' || this.#tokens.current.kind === 'identifier') this.#tokens.take()
    else {
      const found = this.#tokens.current
      throw new TextFormatError(found, `expected a value, found ${describeToken(found)}`)
    }
  }

  #isSign(sign: string): boolean {
    const token = this.#tokens.current
    return token.kind === 'sign' && token.text === sign
  }

  #report(error: TextFormatError): void {
    if (this.#errors.length >= maxErrors) throw error
    this.#errors.push(error)
  }
}

/** `value: "2"` of a parameter, whose value is a message. */
function bareHint(token: Token, label: string): string {
  if (label !== 'value' || (token.kind !== 'string' && token.kind !== 'number' && token.kind !== 'identifier'))
    return ''
  const text = token.kind === 'string' ? token.text : `"${token.text}"`
  return `write value { string_value: ${text} }`
}

const neverClosed = (opening: Token, end: Token): TextFormatError =>
  new TextFormatError(
    end,
    `expected '${closing[opening.text] ?? ''}', found ${describeToken(end)}`,
    `the '${opening.text}' of line ${opening.line} is never closed`,
  )

function strayHint(token: Token, opening: Token | null): string {
  if (token.text === '' || !'}>]'.includes(token.text)) return ''
  if (opening === null) return 'nothing is open here: there is one bracket too many'
  return `the '${opening.text}' of line ${opening.line} is still open: write '${closing[opening.text]}' before this '${token.text}'`
}

function unknownField(name: Token, schema: MessageSchema): TextFormatError {
  return new TextFormatError(
    name,
    `unknown field '${name.text}' in ${schema.name}`,
    unknownFieldHint(name.text, schema),
  )
}

function unknownFieldHint(name: string, schema: MessageSchema): string {
  const camel = schema.byName.get(name)
  if (camel !== undefined) return `write it '${camel.wireName}'`
  // The commonest mistake is a field one level too deep; then the name itself is right.
  if (schema.name !== 'ModelConfig' && modelConfigSchema().byWireName.has(name)) {
    return `'${name}' is a field of the model itself: move it out to the top level of the file`
  }
  const near = nearestWord(name, schema.byWireName.keys())
  if (near !== null) return `did you mean '${near}'?`
  const owner = schema.name === 'ModelConfig' ? topLevelOwner(name) : null
  if (owner !== null) return `'${name}' belongs inside '${owner}'`
  const known = [...schema.byWireName.keys()]
  return known.length > 0 && known.length <= 12 ? `known here are ${known.join(', ')}` : ''
}

/** The block of the model under which a field of this name exists, when there is exactly one. */
function topLevelOwner(name: string): string | null {
  const owners = modelConfigSchema().fields.filter((field) => field.message?.byWireName.has(name) ?? false)
  return owners.length === 1 ? (owners[0]?.wireName ?? null) : null
}

/** Why the field may not be given now, or null. A scalar that still has its default may be given again. */
function conflictOf(schema: MessageSchema, field: FieldSchema, message: Message): string | null {
  if (field.kind === 'repeated' || field.kind === 'map') return null
  if (field.kind === 'oneof') {
    const other = schema.fields.find((sibling) => sibling.oneof === field.oneof && message[sibling.name] !== null)
    if (other === field) return `'${field.wireName}' is given more than once`
    if (other !== undefined) return `'${field.wireName}' and '${other.wireName}' exclude each other: give one of them`
    return null
  }
  const isSet = field.message === null ? message[field.name] !== scalarDefault(field) : message[field.name] !== null
  return isSet ? `'${field.wireName}' is given more than once` : null
}

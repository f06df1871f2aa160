// Any message ⇄ a plain value, driven by the tables of messages. The server has a faster codec of its own for inference
// (protocol/grpc).

import type { FieldSchema, MessageSchema } from './message-schema.ts'
import { malformed, ProtobufReader, type ReaderLimits } from './protobuf-reader.ts'
import { ProtobufWriter } from './protobuf-writer.ts'

export type MessageValue = Record<string, unknown>

/** How a message looks as a value. Enums are their names in every form. */
export type ValueForm = {
  /** Which name of a field its value has. */
  readonly fieldName: 'name' | 'wireName'
  /** True when an absent message or an unset choice is null; else it is left out. */
  readonly hasNulls: boolean
  /** A message with more is refused. */
  readonly limits: ReaderLimits
  readonly long: (exact: bigint) => number | bigint | string
  readonly bytes: (view: Buffer) => Uint8Array
  readonly newMap: () => object
  readonly setEntry: (map: object, key: string | bigint, value: unknown) => void
  readonly entriesOf: (map: object) => Iterable<readonly [unknown, unknown]>
}

/** No message of any table is so deep. */
const deepest = 16

/** `bytes` fields of the value are views on the message. Throws MalformedMessage. */
export function decodeWire(schema: MessageSchema, bytes: Buffer, form: ValueForm): MessageValue {
  return decode(new ProtobufReader(bytes, 0, bytes.length, form.limits), schema, form, 0)
}

function decode(reader: ProtobufReader, schema: MessageSchema, form: ValueForm, depth: number): MessageValue {
  if (depth > deepest) throw malformed('messages are nested too deeply')
  const message = emptyValue(schema, form)
  while (reader.at < reader.end) {
    const tag = reader.tag()
    const field = schema.byNumber.get(tag >>> 3)
    if (field === undefined || !fits(field, tag & 7)) {
      reader.skip(tag)
      continue
    }
    const name = field[form.fieldName]
    if (field.kind === 'single' || field.kind === 'oneof') {
      if (field.oneof !== null) forgetRivals(message, schema, field.oneof, form)
      message[name] = decodeValue(reader, field, form, depth)
    } else if (field.kind === 'map') decodeEntry(reader, field, message[name] as object, form, depth)
    else if ((tag & 7) === 2 && isPackable(field)) {
      for (const outer = reader.enter(); reader.isInside(outer);) {
        reader.spendField()
        ;(message[name] as unknown[]).push(decodeValue(reader, field, form, depth))
      }
    } else (message[name] as unknown[]).push(decodeValue(reader, field, form, depth))
  }
  return message
}

/** The last one on the wire is the choice. */
function forgetRivals(message: MessageValue, schema: MessageSchema, oneof: string, form: ValueForm): void {
  for (const rival of schema.fields) {
    if (rival.oneof !== oneof) continue
    if (form.hasNulls) message[rival[form.fieldName]] = null
    else delete message[rival[form.fieldName]]
  }
}

function decodeEntry(reader: ProtobufReader, field: FieldSchema, map: object, form: ValueForm, depth: number): void {
  let key: string | bigint = field.keyType === 'string' ? '' : 0n
  let value: unknown = field.message === null ? zeroOf(field, form) : emptyValue(field.message, form)
  for (const outer = reader.enter(); reader.isInside(outer);) {
    const tag = reader.tag()
    if (tag === 10 && field.keyType === 'string') key = reader.string()
    else if (tag === 8 && field.keyType !== 'string') key = reader.uint64()
    else if (tag >>> 3 === 2 && wireTypeOf(field) === (tag & 7)) value = decodeValue(reader, field, form, depth)
    else reader.skip(tag)
  }
  form.setEntry(map, key, value)
}

function decodeValue(reader: ProtobufReader, field: FieldSchema, form: ValueForm, depth: number): unknown {
  if (field.message !== null) {
    const outerEnd = reader.enter()
    const value = decode(reader, field.message, form, depth + 1)
    reader.end = outerEnd
    return value
  }
  if (field.enum !== null) {
    const number = reader.int32()
    for (const [name, value] of field.enum.numbers) if (value === number) return name
    return number
  }
  switch (field.type) {
    case 'string':
      return reader.string()
    case 'bytes':
      return form.bytes(reader.view())
    case 'bool':
      return reader.bool()
    case 'int64':
      return form.long(reader.int64())
    case 'uint64':
      return form.long(reader.uint64())
    case 'int32':
      return reader.int32()
    case 'uint32':
      return reader.uint32()
    case 'float':
      return reader.float()
    default:
      return reader.double()
  }
}

/** A message with nothing set. */
function emptyValue(schema: MessageSchema, form: ValueForm): MessageValue {
  const message: MessageValue = {}
  for (const field of schema.fields) {
    const name = field[form.fieldName]
    if (field.kind === 'repeated') message[name] = []
    else if (field.kind === 'map') message[name] = form.newMap()
    else if (field.kind !== 'oneof' && field.message === null) message[name] = zeroOf(field, form)
    else if (form.hasNulls) message[name] = null
  }
  return message
}

const nothing = Buffer.alloc(0)

function zeroOf(field: FieldSchema, form: ValueForm): unknown {
  if (field.enum !== null) return [...field.enum.numbers.keys()][0]
  if (field.type === 'string') return ''
  if (field.type === 'bytes') return form.bytes(nothing)
  if (field.type === 'bool') return false
  return field.type.endsWith('64') ? form.long(0n) : 0
}

function wireTypeOf(field: FieldSchema): number {
  if (field.message !== null || field.type === 'string' || field.type === 'bytes') return 2
  if (field.type === 'double') return 1
  return field.type === 'float' ? 5 : 0
}

const isPackable = (field: FieldSchema): boolean => field.kind === 'repeated' && wireTypeOf(field) !== 2

function fits(field: FieldSchema, wireType: number): boolean {
  if (field.kind === 'map') return wireType === 2
  return wireType === wireTypeOf(field) || (wireType === 2 && isPackable(field))
}

/**
 * The message in pieces; written one after the other they are its bytes. Large `bytes` fields of the message itself are
 * not copied. What is missing in `value`, null or at its default is not written, as proto3 wants it.
 */
export function encodeWire(schema: MessageSchema, value: Readonly<MessageValue>, form: ValueForm): Uint8Array[] {
  const writer = new ProtobufWriter()
  writeFields(writer, schema, value, form, true)
  return writer.pieces()
}

function writeFields(
  writer: ProtobufWriter,
  schema: MessageSchema,
  value: Readonly<MessageValue>,
  form: ValueForm,
  isOutermost = false,
): void {
  for (const field of schema.fields) {
    const given = value[field[form.fieldName]]
    if (given === undefined || given === null) continue
    if (field.kind === 'map') writeMap(writer, field, given, form)
    else if (field.kind === 'repeated') writeList(writer, field, given as readonly unknown[], form, isOutermost)
    else if (field.message !== null || field.kind === 'oneof' || !isZero(given, field)) {
      writeOne(writer, field, given, form)
    }
  }
}

function isZero(value: unknown, field: FieldSchema): boolean {
  if (field.enum !== null) return (typeof value === 'number' ? value : field.enum.numbers.get(value as string)) === 0
  if (value instanceof Uint8Array) return value.length === 0
  // Minus zero is not the default.
  return value === '' || value === false || value === 0n || Object.is(value, 0)
}

function writeMap(writer: ProtobufWriter, field: FieldSchema, map: object, form: ValueForm): void {
  for (const [key, value] of form.entriesOf(map)) {
    writer.nested(field.number, () => {
      if (field.keyType === 'string') writer.textField(1, key as string)
      else writer.integerField(1, BigInt(key as bigint | string))
      writeOne(writer, { ...field, number: 2, kind: 'single' }, value, form)
    })
  }
}

function writeList(
  writer: ProtobufWriter,
  field: FieldSchema,
  values: readonly unknown[],
  form: ValueForm,
  isOutermost: boolean,
): void {
  if (values.length === 0) return
  if (isPackable(field)) {
    writer.nested(field.number, () => {
      for (const value of values) writeScalar(writer, field, value)
    })
  } else if (isOutermost && field.type === 'bytes') {
    for (const bytes of values as readonly Uint8Array[]) {
      writer.tag(field.number, 2)
      writer.rawOrView(bytes)
    }
  } else for (const value of values) writeOne(writer, field, value, form)
}

function writeOne(writer: ProtobufWriter, field: FieldSchema, value: unknown, form: ValueForm): void {
  const { message } = field
  if (message !== null) {
    writer.nested(field.number, () => writeFields(writer, message, value as MessageValue, form))
    return
  }
  writer.tag(field.number, wireTypeOf(field))
  writeScalar(writer, field, value)
}

function writeScalar(writer: ProtobufWriter, field: FieldSchema, value: unknown): void {
  if (field.enum !== null)
    writer.varint(typeof value === 'number' ? value : (field.enum.numbers.get(value as string) ?? 0))
  else if (field.type === 'string') writer.string(String(value))
  else if (field.type === 'bytes') writer.raw(value as Uint8Array)
  else if (field.type === 'bool') writer.uint32(value === true ? 1 : 0)
  else if (field.type === 'double') writer.double(value as number)
  else if (field.type === 'float') writer.float(value as number)
  else writer.varint(value as number | bigint)
}

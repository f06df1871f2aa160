// Any message of the gRPC services ⇄ a plain value, driven by the tables. For everything but inference, whose messages
// have a codec of their own.
// A value has a field per proto field in camelCase: 64-bit integers are bigints (numbers are taken too), bytes are
// Buffers, enums their names, maps Maps; an absent message or unset choice is null.

import { malformed, ProtobufReader } from '../../protobuf/protobuf-reader.ts'
import { ProtobufWriter } from '../../protobuf/protobuf-writer.ts'
import { wireMessage, type WireField, type WireMessage } from './wire-schema.ts'

export type MessageValue = Record<string, unknown>

/** More entries of lists and maps than this in one message are refused: no request of these services needs them. */
const mostEntries = 65_536
/** Messages of these services are at most this deep; a configuration is never decoded. */
const deepest = 16

/** `bytes` fields of the value are views on the message. Throws INVALID_ARG. */
export function decodeMessage(name: string, bytes: Buffer): MessageValue {
  const budget = { entriesLeft: mostEntries }
  return decode(new ProtobufReader(bytes), wireMessage(name), budget, 0)
}

type Budget = { entriesLeft: number }

function decode(reader: ProtobufReader, schema: WireMessage, budget: Budget, depth: number): MessageValue {
  if (depth > deepest) throw malformed('messages are nested too deeply')
  const message = emptyValue(schema)
  while (reader.at < reader.end) {
    const tag = reader.tag()
    const field = schema.byNumber.get(tag >>> 3)
    if (field === undefined || !fits(field, tag & 7)) {
      reader.skip(tag)
      continue
    }
    if (field.kind === 'single' || field.kind === 'oneof') {
      if (field.oneof !== null) {
        for (const rival of schema.fields) if (rival.oneof === field.oneof) message[rival.name] = null
      }
      message[field.name] = decodeValue(reader, field, budget, depth)
      continue
    }
    if (field.kind === 'map') decodeEntry(reader, field, message[field.name] as Map<unknown, unknown>, budget, depth)
    else if ((tag & 7) === 2 && isPackable(field)) {
      const outerEnd = reader.end
      reader.end = reader.lengthEnd()
      while (reader.at < reader.end) append(message[field.name] as unknown[], reader, field, budget, depth)
      reader.end = outerEnd
    } else append(message[field.name] as unknown[], reader, field, budget, depth)
  }
  return message
}

function spend(budget: Budget): void {
  if (--budget.entriesLeft < 0) throw malformed(`it has more than ${mostEntries} entries`)
}

function append(list: unknown[], reader: ProtobufReader, field: WireField, budget: Budget, depth: number): void {
  spend(budget)
  list.push(decodeValue(reader, field, budget, depth))
}

function decodeEntry(
  reader: ProtobufReader,
  field: WireField,
  entries: Map<unknown, unknown>,
  budget: Budget,
  depth: number,
): void {
  spend(budget)
  const outerEnd = reader.end
  reader.end = reader.lengthEnd()
  let key: unknown = field.keyType === 'string' ? '' : 0n
  let value: unknown = field.message === null ? scalarZero(field) : emptyValue(field.message)
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10 && field.keyType === 'string') key = reader.string()
    else if (tag === 8 && field.keyType !== 'string') key = reader.uint64()
    else if (tag >>> 3 === 2 && wireTypeOf(field) === (tag & 7)) value = decodeValue(reader, field, budget, depth)
    else reader.skip(tag)
  }
  reader.end = outerEnd
  entries.set(key, value)
}

function decodeValue(reader: ProtobufReader, field: WireField, budget: Budget, depth: number): unknown {
  if (field.message !== null) {
    const outerEnd = reader.end
    reader.end = reader.lengthEnd()
    const value = decode(reader, field.message, budget, depth + 1)
    reader.end = outerEnd
    return value
  }
  if (field.enum !== null) {
    const number = reader.int32()
    for (const [name, value] of field.enum) if (value === number) return name
    return number
  }
  switch (field.type) {
    case 'string':
      return reader.string()
    case 'bytes':
      return reader.view()
    case 'bool':
      return reader.bool()
    case 'int64':
      return reader.int64()
    case 'uint64':
      return reader.uint64()
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
function emptyValue(schema: WireMessage): MessageValue {
  const message: MessageValue = {}
  for (const field of schema.fields) {
    if (field.kind === 'repeated') message[field.name] = []
    else if (field.kind === 'map') message[field.name] = new Map()
    else if (field.kind === 'oneof' || field.message !== null) message[field.name] = null
    else message[field.name] = scalarZero(field)
  }
  return message
}

const nothing = Buffer.alloc(0)

function scalarZero(field: WireField): unknown {
  if (field.enum !== null) return [...field.enum.keys()][0]
  if (field.type === 'string') return ''
  if (field.type === 'bytes') return nothing
  if (field.type === 'bool') return false
  return field.type.endsWith('64') ? 0n : 0
}

function wireTypeOf(field: WireField): number {
  if (field.message !== null || field.type === 'string' || field.type === 'bytes') return 2
  if (field.type === 'double') return 1
  return field.type === 'float' ? 5 : 0
}

const isPackable = (field: WireField): boolean => field.kind === 'repeated' && wireTypeOf(field) !== 2

function fits(field: WireField, wireType: number): boolean {
  if (field.kind === 'map') return wireType === 2
  return wireType === wireTypeOf(field) || (wireType === 2 && isPackable(field))
}

/** What is missing in `value`, null or at its default is not written, as proto3 wants it. */
export function encodeMessage(name: string, value: Readonly<MessageValue>): Buffer {
  const writer = new ProtobufWriter()
  writeMessage(writer, wireMessage(name), value)
  return writer.finish()
}

export function writeMessage(writer: ProtobufWriter, schema: WireMessage, value: Readonly<MessageValue>): void {
  for (const field of schema.fields) {
    const given = value[field.name]
    if (given === undefined || given === null) continue
    if (field.kind === 'map') writeMap(writer, field, given as ReadonlyMap<unknown, unknown>)
    else if (field.kind === 'repeated') writeList(writer, field, given as readonly unknown[])
    else if (field.message !== null || field.kind === 'oneof' || !isZero(given, field)) writeOne(writer, field, given)
  }
}

function isZero(value: unknown, field: WireField): boolean {
  if (field.enum !== null) return (typeof value === 'number' ? value : field.enum.get(value as string)) === 0
  if (value instanceof Uint8Array) return value.length === 0
  // Minus zero is not the default.
  return value === '' || value === false || value === 0n || Object.is(value, 0)
}

function writeMap(writer: ProtobufWriter, field: WireField, entries: ReadonlyMap<unknown, unknown>): void {
  for (const [key, value] of entries) {
    writer.nested(field.number, () => {
      if (field.keyType === 'string') {
        writer.tag(1, 2)
        writer.string(key as string)
      } else {
        writer.tag(1, 0)
        writer.varint(key as bigint)
      }
      writeOne(writer, { ...field, number: 2, kind: 'single' }, value)
    })
  }
}

function writeList(writer: ProtobufWriter, field: WireField, values: readonly unknown[]): void {
  if (values.length === 0) return
  if (!isPackable(field)) {
    for (const value of values) writeOne(writer, field, value)
    return
  }
  writer.nested(field.number, () => {
    for (const value of values) writeScalar(writer, field, value)
  })
}

function writeOne(writer: ProtobufWriter, field: WireField, value: unknown): void {
  const { message } = field
  if (message !== null) {
    writer.nested(field.number, () => writeMessage(writer, message, value as MessageValue))
    return
  }
  writer.tag(field.number, wireTypeOf(field))
  writeScalar(writer, field, value)
}

function writeScalar(writer: ProtobufWriter, field: WireField, value: unknown): void {
  if (field.enum !== null) writer.varint(typeof value === 'number' ? value : (field.enum.get(value as string) ?? 0))
  else if (field.type === 'string') writer.string(value as string)
  else if (field.type === 'bytes') writer.raw(value as Uint8Array)
  else if (field.type === 'bool') writer.uint32(value === true ? 1 : 0)
  else if (field.type === 'double') writer.double(value as number)
  else if (field.type === 'float') writer.float(value as number)
  else writer.varint(value as number | bigint)
}

// Protocol buffers ⇄ plain objects, by the tables of messages. Decoded objects look as protobuf's JSON form does, with
// defaults filled in; 64-bit integers are numbers where those are exact, else bigints. Bytes are views.

import { InferenceError } from '../inference-error.ts'
import { messageOf, type Field, type FieldValue, type ScalarType } from './protobuf-schema.ts'

export type Decoded = Record<string, unknown>

const deepest = 32
const varint = 0
const fixed64 = 1
const delimited = 2
const fixed32 = 5

/** The bytes in the order they go out; what is large is not copied. */
export function encodeMessage(name: string, value: Readonly<Decoded>): Uint8Array[] {
  const parts: Uint8Array[] = []
  for (const field of messageOf(name).fields) {
    const inner = value[field.name]
    if (inner !== undefined && inner !== null) encodeField(field, inner, parts)
  }
  return parts
}

function encodeField(field: Field, value: unknown, parts: Uint8Array[]): void {
  if (field.cardinality === 'map') {
    for (const [key, inner] of Object.entries(value as object)) {
      const entry: Uint8Array[] = []
      encodeValue(1, { kind: 'scalar', type: field.key }, key, entry)
      encodeValue(2, field.value, inner, entry)
      pushDelimited(field.number, entry, parts)
    }
  } else if (field.cardinality === 'repeated') {
    const values = value as readonly unknown[]
    if (values.length === 0) return
    if (isPackable(field.value)) {
      pushDelimited(
        field.number,
        values.map((each) => scalarBytes(field.value, each)),
        parts,
      )
    } else for (const each of values) encodeValue(field.number, field.value, each, parts)
  } else if (field.isOptional || !isDefault(value)) encodeValue(field.number, field.value, value, parts)
}

const isDefault = (value: unknown): boolean =>
  value === '' || value === 0 || value === 0n || value === false || (value instanceof Uint8Array && value.length === 0)

const isPackable = (value: FieldValue): boolean =>
  value.kind === 'enum' || (value.kind === 'scalar' && value.type !== 'string' && value.type !== 'bytes')

function encodeValue(number: number, value: FieldValue, inner: unknown, parts: Uint8Array[]): void {
  if (value.kind === 'message') pushDelimited(number, encodeMessage(value.type, inner as Decoded), parts)
  else if (value.kind === 'scalar' && value.type === 'string') {
    pushDelimited(number, [Buffer.from(String(inner))], parts)
  } else if (value.kind === 'scalar' && value.type === 'bytes') pushDelimited(number, [inner as Uint8Array], parts)
  else parts.push(varintBytes((number << 3) | wireTypeOf(value)), scalarBytes(value, inner))
}

function pushDelimited(number: number, inner: readonly Uint8Array[], parts: Uint8Array[]): void {
  let length = 0
  for (const part of inner) length += part.length
  parts.push(varintBytes((number << 3) | delimited), varintBytes(length), ...inner)
}

function wireTypeOf(value: FieldValue): number {
  if (value.kind !== 'scalar') return value.kind === 'enum' ? varint : delimited
  if (value.type === 'double') return fixed64
  if (value.type === 'float') return fixed32
  return value.type === 'string' || value.type === 'bytes' ? delimited : varint
}

function scalarBytes(value: FieldValue, inner: unknown): Uint8Array {
  if (value.kind === 'enum') return varintBytes(Math.max(0, value.names.indexOf(String(inner))))
  if (value.kind === 'scalar' && (value.type === 'double' || value.type === 'float')) {
    const bytes = Buffer.alloc(value.type === 'double' ? 8 : 4)
    if (value.type === 'double') bytes.writeDoubleLE(Number(inner))
    else bytes.writeFloatLE(Number(inner))
    return bytes
  }
  if (typeof inner === 'boolean') return varintBytes(inner ? 1 : 0)
  const integer = typeof inner === 'number' && inner >= 0 ? inner : BigInt(inner as bigint | number | string)
  return varintBytes(integer)
}

function varintBytes(value: number | bigint): Uint8Array {
  if (typeof value === 'number' && value < 0x80) return Uint8Array.of(value)
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, BigInt(value))
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80)
    rest >>= 7n
  }
  bytes.push(Number(rest))
  return Uint8Array.from(bytes)
}

export function decodeMessage(name: string, bytes: Uint8Array): Decoded {
  // Tensors are handed out as views on this: plain arrays, as over HTTP, not Buffers with a slice() of their own.
  const plain = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return new Reader(plain).readMessage(name, bytes.length, 0)
}

class Reader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  readMessage(name: string, end: number, depth: number): Decoded {
    if (depth > deepest) throw broken('messages are nested too deep')
    const { fields, byNumber } = messageOf(name)
    const message: Decoded = {}
    for (const field of fields) if (!field.isOptional) message[field.name] = defaultOf(field)
    while (this.#at < end) {
      const tag = Number(this.#varint())
      const field = byNumber.get(tag >>> 3)
      if (field === undefined) this.#skip(tag & 7, end)
      else this.#readField(field, tag & 7, message, end, depth)
    }
    if (this.#at !== end) throw broken('a field runs past its message')
    return message
  }

  #readField(field: Field, wireType: number, message: Decoded, end: number, depth: number): void {
    const { name, value } = field
    if (field.cardinality === 'map') {
      const [key, inner] = this.#readEntry(field, this.#end(end), depth)
      // A key `__proto__` must become a member like any other.
      Object.defineProperty(message[name], key, { value: inner, enumerable: true, configurable: true, writable: true })
    } else if (field.cardinality === 'repeated') {
      const list = message[name] as unknown[]
      if (wireType === delimited && isPackable(value)) {
        const packedEnd = this.#end(end)
        while (this.#at < packedEnd) list.push(this.#readValue(value, wireTypeOf(value), packedEnd, depth))
      } else list.push(this.#readValue(value, wireType, end, depth))
    } else message[name] = this.#readValue(value, wireType, end, depth)
  }

  #readEntry(field: Field, end: number, depth: number): [string, unknown] {
    let key = field.key === 'string' ? '' : '0'
    let inner: unknown = defaultOfValue(field.value)
    while (this.#at < end) {
      const tag = Number(this.#varint())
      if (tag >>> 3 === 1) key = String(this.#readValue({ kind: 'scalar', type: field.key }, tag & 7, end, depth))
      else if (tag >>> 3 === 2) inner = this.#readValue(field.value, tag & 7, end, depth)
      else this.#skip(tag & 7, end)
    }
    return [key, inner ?? {}]
  }

  #readValue(value: FieldValue, wireType: number, end: number, depth: number): unknown {
    if (wireType !== wireTypeOf(value)) throw broken(`a field has wire type ${wireType}, expected ${wireTypeOf(value)}`)
    if (value.kind === 'message') return this.readMessage(value.type, this.#end(end), depth + 1)
    if (value.kind === 'enum') {
      const number = Number(this.#varint())
      return value.names[number] ?? number
    }
    if (wireType === delimited) {
      const start = this.#end(end)
      const from = this.#at
      this.#at = start
      const bytes = this.#bytes.subarray(from, start)
      return value.type === 'bytes' ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()
    }
    return this.#number(value.type, end)
  }

  #number(type: ScalarType, end: number): unknown {
    if (type === 'double' || type === 'float') {
      const size = type === 'double' ? 8 : 4
      if (this.#at + size > end) throw broken('a number is cut short')
      this.#at += size
      return size === 8 ? this.#view.getFloat64(this.#at - 8, true) : this.#view.getFloat32(this.#at - 4, true)
    }
    const raw = this.#varint()
    if (type === 'bool') return raw !== 0 && raw !== 0n
    if (typeof raw === 'number') return type === 'int32' ? raw | 0 : raw
    if (type === 'int32') return Number(BigInt.asIntN(32, raw))
    if (type === 'uint32') return Number(BigInt.asUintN(32, raw))
    const exact = type === 'int64' ? BigInt.asIntN(64, raw) : raw
    return Number.isSafeInteger(Number(exact)) ? Number(exact) : exact
  }

  /** A number up to 35 bits, else a bigint. */
  #varint(): number | bigint {
    let low = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#byte()
      low += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return low
    }
    let value = BigInt(low)
    for (let shift = 35n; shift < 70n; shift += 7n) {
      const byte = this.#byte()
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return BigInt.asUintN(64, value)
    }
    throw broken('a number is longer than ten bytes')
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++]
    if (byte === undefined) throw broken('it is cut short')
    return byte
  }

  /** Reads a length, and says where what has that length ends. */
  #end(limit: number): number {
    const length = Number(this.#varint())
    if (length > limit - this.#at) throw broken(`a field of ${length} bytes has only ${limit - this.#at}`)
    return this.#at + length
  }

  #skip(wireType: number, end: number): void {
    if (wireType === varint) this.#varint()
    else if (wireType === fixed64) this.#at += 8
    else if (wireType === delimited) this.#at = this.#end(end)
    else if (wireType === fixed32) this.#at += 4
    else throw broken(`wire type ${wireType} is unknown`)
    if (this.#at > end) throw broken('a field runs past its message')
  }
}

function defaultOf({ cardinality, value }: Field): unknown {
  if (cardinality === 'repeated') return []
  return cardinality === 'map' ? {} : defaultOfValue(value)
}

function defaultOfValue(value: FieldValue): unknown {
  if (value.kind === 'message') return undefined
  if (value.kind === 'enum') return value.names[0]
  if (value.type === 'string') return ''
  if (value.type === 'bytes') return new Uint8Array(0)
  return value.type === 'bool' ? false : 0
}

const broken = (why: string): InferenceError =>
  new InferenceError('PROTOCOL', `the server's message cannot be read: ${why}`)

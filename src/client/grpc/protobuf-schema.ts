// What the codec asks about a field, from the tables of messages that the server reads too.

import { wireMessage, type WireField } from '../../protocol/grpc/wire-schema.ts'

export type ScalarType = 'bool' | 'int32' | 'int64' | 'uint32' | 'uint64' | 'float' | 'double' | 'string' | 'bytes'

export type FieldValue =
  | { readonly kind: 'scalar'; readonly type: ScalarType }
  | { readonly kind: 'enum'; readonly names: readonly string[] }
  | { readonly kind: 'message'; readonly type: string }

export type Field = {
  readonly name: string
  readonly number: number
  readonly cardinality: 'one' | 'repeated' | 'map'
  /** Absent from a decoded message unless it was set: messages and members of a oneof. */
  readonly isOptional: boolean
  /** Of a map: the type of its keys. */
  readonly key: ScalarType
  readonly value: FieldValue
}

export type Message = { readonly byNumber: ReadonlyMap<number, Field>; readonly fields: readonly Field[] }

const known = new Map<string, Message>()

/** Worked out on first use, so that importing the client costs nothing. */
export function messageOf(name: string): Message {
  let message = known.get(name)
  if (message === undefined) {
    const fields = wireMessage(name).fields.map(fieldOf)
    message = { fields, byNumber: new Map(fields.map((field) => [field.number, field])) }
    known.set(name, message)
  }
  return message
}

function fieldOf(field: WireField): Field {
  const { wireName: name, number, kind, keyType } = field
  const isOne = kind === 'single' || kind === 'oneof'
  return {
    name,
    number,
    cardinality: isOne ? 'one' : kind,
    isOptional: kind === 'oneof' || (isOne && field.message !== null),
    key: (keyType === '' ? 'string' : keyType) as ScalarType,
    value: valueOf(field),
  }
}

function valueOf({ type, message, enum: numbers }: WireField): FieldValue {
  if (message !== null) return { kind: 'message', type: message.name }
  if (numbers === null) return { kind: 'scalar', type: type as ScalarType }
  const names: string[] = []
  for (const [name, number] of numbers) names[number] = name
  return { kind: 'enum', names }
}

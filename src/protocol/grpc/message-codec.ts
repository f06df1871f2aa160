// Messages of the gRPC services as the server sees them: a value has a field per proto field in camelCase; 64-bit
// integers are bigints (numbers are accepted too), bytes are Buffers, maps are Maps; an absent field is null.

import { decodeWire, encodeWire, type MessageValue, type ValueForm } from '../../protobuf/message-codec.ts'
import type { MessageSchema } from '../../protobuf/message-schema.ts'
import { requestReaderLimits } from '../../protobuf/protobuf-reader.ts'
import { wireMessage } from './wire-schema.ts'

export type { MessageValue } from '../../protobuf/message-codec.ts'

export const serverForm: ValueForm = {
  fieldName: 'name',
  hasNulls: true,
  limits: requestReaderLimits,
  long: (exact) => exact,
  bytes: (view) => view,
  newMap: () => new Map(),
  setEntry: (map, key, value) => (map as Map<string | bigint, unknown>).set(key, value),
  entriesOf: (map) => map as ReadonlyMap<unknown, unknown>,
}

/** How the messages of a service are read and written, by their names. */
export type MessageCodec = {
  /** `bytes` fields of the value are views on the message. Throws INVALID_ARG. */
  readonly decode: (name: string, bytes: Buffer) => MessageValue
  readonly encode: (name: string, value: Readonly<MessageValue>) => Buffer
}

export const messageCodec = (schemaOf: (name: string) => MessageSchema): MessageCodec => ({
  decode: (name, bytes) => decodeWire(schemaOf(name), bytes, serverForm),
  encode: (name, value) => {
    const [first, ...more] = encodeWire(schemaOf(name), value, serverForm)
    if (first === undefined) return Buffer.alloc(0)
    return more.length === 0 ? (first as Buffer) : Buffer.concat([first, ...more])
  },
})

export const { decode: decodeMessage, encode: encodeMessage } = messageCodec(wireMessage)

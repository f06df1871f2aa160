// Messages of Envoy's API ⇄ plain values: a field has its name in camelCase, absent messages are left out, maps are Maps.

import { decodeWire, encodeWire, type MessageValue, type ValueForm } from '../protobuf/message-codec.ts'
import { requestReaderLimits, type ReaderLimits } from '../protobuf/protobuf-reader.ts'
import { xdsMessage } from './xds-messages.ts'

/** An Envoy names each of its clusters in one message, so the count of names is bounded where they are kept. */
const xdsLimits: ReaderLimits = { ...requestReaderLimits, mostFields: 2 * requestReaderLimits.mostFields }

const xdsForm: ValueForm = {
  fieldName: 'name',
  hasNulls: false,
  limits: xdsLimits,
  long: Number,
  bytes: (view) => view,
  newMap: () => new Map(),
  setEntry: (map, key, value) => (map as Map<string | bigint, unknown>).set(key, value),
  entriesOf: (map) => map as ReadonlyMap<unknown, unknown>,
}

/** A message inside another one, with its type. */
export type Packed = { readonly typeUrl: string; readonly value: Buffer }

/** Throws MalformedMessage. */
export const decodeXds = (name: string, bytes: Buffer): MessageValue => decodeWire(xdsMessage(name), bytes, xdsForm)

export const encodeXds = (name: string, value: Readonly<MessageValue>): Buffer =>
  Buffer.concat(encodeWire(xdsMessage(name), value, xdsForm))

export const typeUrlOf = (name: string): string => `type.googleapis.com/${name}`

export const packed = (name: string, value: Readonly<MessageValue>): Packed => ({
  typeUrl: typeUrlOf(name),
  value: encodeXds(name, value),
})

// Messages of the gRPC services as the SDK sees them: plain objects that look as protobuf's JSON form does, with defaults
// filled in. 64-bit integers are numbers where those are exact, else bigints. Bytes are views. What is absent is left out.

import { decodeWire, encodeWire, type MessageValue, type ValueForm } from '../../protobuf/message-codec.ts'
import { MalformedMessage, noReaderLimits } from '../../protobuf/protobuf-reader.ts'
import { wireMessage } from '../../protocol/grpc/wire-schema.ts'
import { InferenceError } from '../inference-error.ts'

export type { MessageValue } from '../../protobuf/message-codec.ts'

const jsonForm: ValueForm = {
  fieldName: 'wireName',
  hasNulls: false,
  // The answer's size has a limit, and a list takes at most a few times its bytes.
  limits: noReaderLimits,
  long: (exact) => (Number.isSafeInteger(Number(exact)) ? Number(exact) : exact),
  // Callers get these bytes as tensors: plain arrays, as over HTTP. The slice() of a Buffer would be a view.
  bytes: (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength),
  newMap: () => ({}),
  // A key `__proto__` must become a member like any other.
  setEntry: (map, key, value) =>
    Object.defineProperty(map, String(key), { value, enumerable: true, configurable: true, writable: true }),
  entriesOf: Object.entries,
}

/** Throws an InferenceError with the code PROTOCOL. */
export function decodeMessage(name: string, bytes: Uint8Array): MessageValue {
  try {
    return decodeWire(wireMessage(name), Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), jsonForm)
  } catch (reason) {
    if (!(reason instanceof MalformedMessage)) throw reason
    throw new InferenceError('PROTOCOL', `the server's message cannot be read: ${reason.problem}`)
  }
}

/** The bytes in the order they go out; what is large is not copied. */
export const encodeMessage = (name: string, value: Readonly<MessageValue>): Uint8Array[] =>
  encodeWire(wireMessage(name), value, jsonForm)

// Messages of TensorFlow Serving that are not on the way of an inference ⇄ their bytes.

import { decodeWire, encodeWire, type MessageValue } from '../../protobuf/message-codec.ts'
import { schemaFinder } from '../../protobuf/message-schema.ts'
import { serverForm } from '../grpc/message-codec.ts'
import { configMessages, servingFiles } from './serving-files.ts'

const [messages, enums] = [servingFiles.map((file) => file.messages), servingFiles.map((file) => file.enums)]

/** The messages of the services and of the files that operators write. */
export const servingMessage = schemaFinder(Object.assign({}, configMessages, ...messages), Object.assign({}, ...enums))

/** Throws INVALID_ARG. */
export const decodeServing = (name: string, bytes: Buffer): MessageValue =>
  decodeWire(servingMessage(name), bytes, serverForm)

export function encodeServing(name: string, value: Readonly<MessageValue>): Buffer {
  return Buffer.concat(encodeWire(servingMessage(name), value, serverForm))
}

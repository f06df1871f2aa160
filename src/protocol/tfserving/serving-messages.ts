// Messages of TensorFlow Serving that are not on the way of an inference ⇄ their bytes.

import { decodeWire, type MessageValue, type ValueForm } from '../../protobuf/message-codec.ts'
import { schemaFinder, type EnumRows, type MessageRows } from '../../protobuf/message-schema.ts'
import { noReaderLimits } from '../../protobuf/protobuf-reader.ts'
import { messageCodec, serverForm } from '../grpc/message-codec.ts'
import { configMessages, servingFiles } from './serving-files.ts'

const messages = Object.assign({}, configMessages, ...servingFiles.map((file) => file.messages)) as MessageRows
const enums = Object.assign({}, ...servingFiles.map((file) => file.enums)) as EnumRows

/** The messages of the services and of the files that operators write. */
export const servingMessage = schemaFinder(messages, enums)

/** The same, but examples are views on the message: what is in them is read later, perhaps in steps. */
const messageOfViews = schemaFinder(
  {
    ...messages,
    ExampleList: ['repeated bytes examples = 1'],
    ExampleListWithContext: ['repeated bytes examples = 1', 'bytes context = 2'],
  },
  enums,
)

export const { decode: decodeServing, encode: encodeServing } = messageCodec(servingMessage)
export const { decode: decodeViews } = messageCodec(messageOfViews)

const restForm: ValueForm = {
  ...serverForm,
  fieldName: 'wireName',
  hasNulls: false,
  limits: noReaderLimits,
  long: String,
  newMap: () => ({}),
  // A key `__proto__` must become a member like any other.
  setEntry: (map, key, value) => Object.defineProperty(map, String(key), { value, enumerable: true }),
}

/** The message as TensorFlow Serving's REST API shows it: every field by its name, 64-bit integers as strings. */
export const servingJson = (name: string, value: Readonly<MessageValue>): MessageValue =>
  decodeWire(servingMessage(name), encodeServing(name, value), restForm)

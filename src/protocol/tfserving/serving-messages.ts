// Messages of TensorFlow Serving that are not on the way of an inference ⇄ their bytes. What tensors and examples hold is read
// elsewhere, field by field.

import { decodeWire, type MessageValue, type ValueForm } from '../../protobuf/message-codec.ts'
import { schemasOf, type WireFile } from '../../protobuf/message-schema.ts'
import { readProtoFile } from '../../protobuf/proto-file.ts'
import { noReaderLimits } from '../../protobuf/protobuf-reader.ts'
import { messageCodec, serverForm } from '../grpc/message-codec.ts'

/** What clients see of the services. */
export const servingFiles: readonly WireFile[] = [
  'google/protobuf/any.proto',
  'google/protobuf/wrappers.proto',
  'tensorflow/core/framework/tensor.proto',
  'tensorflow_serving/apis/prediction_service.proto',
].map(readProtoFile)

/** The files of an operator, which no client sends. */
const configFiles = [
  'tensorflow_serving/config/ssl_config.proto',
  'tensorflow_serving/servables/tensorflow/session_bundle_config.proto',
].map(readProtoFile)

/** The messages of the services and of the files that operators write. */
export const servingMessage = schemasOf([...servingFiles, ...configFiles])

export const { decode: decodeServing, encode: encodeServing } = messageCodec(servingMessage)

/** The same, but examples are views on the message: what is in them is read later, perhaps in steps. */
const viewed = {
  messages: {
    ExampleList: ['repeated bytes examples = 1'],
    ExampleListWithContext: ['repeated bytes examples = 1', 'bytes context = 2'],
  },
  enums: {},
} as const
export const { decode: decodeViews } = messageCodec(schemasOf([...servingFiles, viewed]))

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

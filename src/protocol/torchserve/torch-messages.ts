// The messages of TorchServe's gRPC services ⇄ their bytes.

import { schemasOf } from '../../protobuf/message-schema.ts'
import { readProtoFile } from '../../protobuf/proto-file.ts'
import { messageCodec } from '../grpc/message-codec.ts'

const files = [
  'google/protobuf/any.proto',
  'google/protobuf/empty.proto',
  'google/rpc/status.proto',
  'torchserve/inference.proto',
  'torchserve/management.proto',
]

export const torchCodec = messageCodec(schemasOf(files.map(readProtoFile)))

// The .proto files as values: which file has which package, messages, enums and services.

import { enumTypes, messageTypes } from '../../config/model-config-schema.ts'
import {
  healthEnums,
  healthMessages,
  healthRpcs,
  inferenceMessages,
  inferenceRpcs,
  reflectionMessages,
  reflectionRpcs,
} from './service-messages.ts'
import { schemaFinder, type WireFile } from '../../protobuf/message-schema.ts'

export type { WireFile } from '../../protobuf/message-schema.ts'

const noEnums = {}

const reflectionFile = (version: 'v1' | 'v1alpha'): WireFile => ({
  name: `reflection_${version}.proto`,
  package: `grpc.reflection.${version}`,
  dependencies: [],
  messages: reflectionMessages,
  enums: noEnums,
  services: { ServerReflection: reflectionRpcs },
})

const modelConfigFile: WireFile = {
  name: 'model_config.proto',
  package: 'inference',
  dependencies: [],
  messages: messageTypes,
  enums: enumTypes,
  services: {},
}

export const wireFiles: readonly WireFile[] = [
  modelConfigFile,
  {
    name: 'grpc_service.proto',
    package: 'inference',
    dependencies: ['model_config.proto'],
    messages: inferenceMessages,
    enums: noEnums,
    services: { GRPCInferenceService: inferenceRpcs },
  },
  {
    name: 'health.proto',
    package: 'grpc.health.v1',
    dependencies: [],
    messages: healthMessages,
    enums: healthEnums,
    services: { Health: healthRpcs },
  },
  reflectionFile('v1'),
  reflectionFile('v1alpha'),
]

/** The fields of a message by its name without the package; made at the first use. */
export const wireMessage = schemaFinder(
  { ...messageTypes, ...inferenceMessages, ...healthMessages, ...reflectionMessages },
  { ...enumTypes, ...healthEnums },
)

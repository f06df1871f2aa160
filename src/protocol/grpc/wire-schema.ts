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
  type MessageRows,
  type RpcRows,
} from './service-messages.ts'
import type { WireField, WireMessage } from '../../protobuf/message-schema.ts'

export type WireFile = {
  readonly name: string
  readonly package: string
  readonly dependencies: readonly string[]
  readonly messages: MessageRows
  readonly enums: Readonly<Record<string, Readonly<Record<string, number>>>>
  readonly services: Readonly<Record<string, RpcRows>>
}

const noEnums = {}

const reflectionFile = (version: 'v1' | 'v1alpha'): WireFile => ({
  name: `reflection_${version}.proto`,
  package: `grpc.reflection.${version}`,
  dependencies: [],
  messages: reflectionMessages,
  enums: noEnums,
  services: { ServerReflection: reflectionRpcs },
})

export const modelConfigFile: WireFile = {
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

const allMessages: MessageRows = { ...messageTypes, ...inferenceMessages, ...healthMessages, ...reflectionMessages }
const allEnums: WireFile['enums'] = { ...enumTypes, ...healthEnums }
const known = new Map<string, WireMessage>()

const camelCase = (wireName: string): string =>
  wireName.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

/** A message's fields by its name without the package; made when first asked for. */
export function wireMessage(name: string): WireMessage {
  const found = known.get(name)
  if (found !== undefined) return found
  const rows = allMessages[name]
  if (rows === undefined) throw new Error(`no message '${name}' in the gRPC services`)
  const fields: WireField[] = []
  const byNumber = new Map<number, WireField>()
  const message = { name, fields, byNumber }
  known.set(name, message)
  for (const [wireName, number, type, kind, extra] of rows) {
    const numbers = allEnums[type]
    const field: WireField = {
      wireName,
      name: camelCase(wireName),
      number,
      type,
      kind,
      oneof: kind === 'oneof' ? (extra ?? null) : null,
      keyType: kind === 'map' ? (extra ?? '') : '',
      message: type in allMessages ? wireMessage(type) : null,
      enum: numbers === undefined ? null : new Map(Object.entries(numbers)),
    }
    fields.push(field)
    byNumber.set(number, field)
  }
  return message
}

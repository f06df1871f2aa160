// The .proto files as serialised FileDescriptorProtos for server reflection. Made from the tables at the first
// reflection call.

import { ProtobufWriter } from '../../protobuf/protobuf-writer.ts'
import type { FieldSchema } from '../../protobuf/message-schema.ts'
import type { RpcRows } from './service-messages.ts'
import { wireFiles, wireMessage, type WireFile } from './wire-schema.ts'

const fieldTypes: Readonly<Record<string, number>> = {
  double: 1,
  float: 2,
  int64: 3,
  uint64: 4,
  int32: 5,
  bool: 8,
  string: 9,
  message: 11,
  bytes: 12,
  uint32: 13,
  enum: 14,
}
const [optionalLabel, repeatedLabel] = [1, 3]

/** FileDescriptorProto: name 1, package 2, dependency 3, message_type 4, enum_type 5, service 6, syntax 12. */
export function encodeFileDescriptor(file: WireFile): Buffer {
  const writer = new ProtobufWriter(4096)
  writer.textField(1, file.name)
  writer.textField(2, file.package)
  for (const dependency of file.dependencies) writer.textField(3, dependency)
  for (const name of childrenOf(file.messages, '')) writer.nested(4, () => writeMessageType(writer, file, name))
  for (const name of childrenOf(file.enums, '')) writer.nested(5, () => writeEnumType(writer, file, name))
  for (const [name, rpcs] of Object.entries(file.services))
    writer.nested(6, () => writeService(writer, file, name, rpcs))
  writer.textField(12, 'proto3')
  return writer.finish()
}

/** Every name that a file defines, with its package → the file. */
export function symbolTable(): ReadonlyMap<string, WireFile> {
  const symbols = new Map<string, WireFile>()
  for (const file of wireFiles) {
    const full = (name: string): string => `${file.package}.${name}`
    for (const name of [...Object.keys(file.messages), ...Object.keys(file.enums)]) symbols.set(full(name), file)
    for (const [service, rpcs] of Object.entries(file.services)) {
      symbols.set(full(service), file)
      for (const rpc of Object.keys(rpcs)) symbols.set(`${full(service)}.${rpc}`, file)
    }
  }
  return symbols
}

export const serviceNames = (): string[] =>
  wireFiles.flatMap((file) => Object.keys(file.services).map((name) => `${file.package}.${name}`))

const parentOf = (name: string): string => name.split('.').slice(0, -1).join('.')
const childrenOf = (all: Readonly<Record<string, unknown>>, parent: string): string[] =>
  Object.keys(all).filter((name) => parentOf(name) === parent)
const lastOf = (name: string): string => name.split('.').at(-1) ?? ''

/** DescriptorProto: name 1, field 2, nested_type 3, enum_type 4, options 7, oneof_decl 8. */
function writeMessageType(writer: ProtobufWriter, file: WireFile, name: string): void {
  const { fields } = wireMessage(name)
  const oneofs = [...new Set(fields.flatMap(({ oneof }) => (oneof === null ? [] : [oneof])))]
  writer.textField(1, lastOf(name))
  for (const field of fields) writer.nested(2, () => writeField(writer, file, name, field, oneofs))
  for (const child of childrenOf(file.messages, name)) writer.nested(3, () => writeMessageType(writer, file, child))
  for (const field of fields) if (field.kind === 'map') writer.nested(3, () => writeEntryType(writer, file, field))
  for (const child of childrenOf(file.enums, name)) writer.nested(4, () => writeEnumType(writer, file, child))
  for (const oneof of oneofs) writer.nested(8, () => writer.textField(1, oneof))
}

/** `some_name` → `SomeNameEntry`, the message that a map's entries are. */
const entryName = (wireName: string): string =>
  `${wireName.replace(/(^|_)([a-z0-9])/g, (_, _start, letter: string) => letter.toUpperCase())}Entry`

function writeEntryType(writer: ProtobufWriter, file: WireFile, field: FieldSchema): void {
  const key = { wireName: 'key', name: 'key', number: 1, type: field.keyType ?? 'string', enum: null } as const
  const value = { wireName: 'value', name: 'value', number: 2 } as const
  writer.textField(1, entryName(field.wireName))
  for (const part of [key, value])
    writer.nested(2, () => writeField(writer, file, '', { ...field, kind: 'single', ...part }, []))
  writer.nested(7, () => writer.integerField(7, 1))
}

/** FieldDescriptorProto: name 1, number 3, label 4, type 5, type_name 6, oneof_index 9, json_name 10. */
function writeField(
  writer: ProtobufWriter,
  file: WireFile,
  owner: string,
  field: FieldSchema,
  oneofs: readonly string[],
): void {
  const { wireName, type, kind, oneof } = field
  const isMap = kind === 'map'
  const named = isMap ? `.${file.package}.${owner}.${entryName(wireName)}` : typeNameOf(type)
  const scalar = fieldTypes[type]
  const typeNumber = isMap ? 11 : (scalar ?? (field.enum === null ? 11 : 14))
  writer.textField(1, wireName)
  writer.integerField(3, field.number)
  writer.integerField(4, kind === 'repeated' || isMap ? repeatedLabel : optionalLabel)
  writer.integerField(5, typeNumber)
  if (typeNumber === 11 || typeNumber === 14) writer.textField(6, named === '' ? typeNameIn(file, type) : named)
  if (oneof !== null) writer.integerField(9, oneofs.indexOf(oneof))
  writer.textField(10, field.name)
}

const typeNameIn = (file: WireFile, type: string): string => `.${file.package}.${type}`

/** '' for a type that several files define, as both versions of reflection do: then the type is of the same file. */
function typeNameOf(type: string): string {
  const owners = wireFiles.filter((file) => type in file.messages || type in file.enums)
  return owners.length === 1 ? typeNameIn(owners[0] as WireFile, type) : ''
}

/** EnumDescriptorProto: name 1, value 2 { name 1, number 2 }. */
function writeEnumType(writer: ProtobufWriter, file: WireFile, name: string): void {
  writer.textField(1, lastOf(name))
  for (const [value, valueNumber] of Object.entries(file.enums[name] ?? {})) {
    writer.nested(2, () => {
      writer.textField(1, value)
      writer.integerField(2, valueNumber)
    })
  }
}

/** ServiceDescriptorProto: name 1, method 2 { name 1, input 2, output 3, client_streaming 5, server_streaming 6 }. */
function writeService(writer: ProtobufWriter, file: WireFile, name: string, rpcs: RpcRows): void {
  writer.textField(1, name)
  for (const [rpc, types] of Object.entries(rpcs)) {
    const [input, output] = types.map((type) => ({
      isStream: type.startsWith('stream '),
      name: typeNameIn(file, type.replace('stream ', '')),
    })) as [{ isStream: boolean; name: string }, { isStream: boolean; name: string }]
    writer.nested(2, () => {
      writer.textField(1, rpc)
      writer.textField(2, input.name)
      writer.textField(3, output.name)
      if (input.isStream) writer.integerField(5, 1)
      if (output.isStream) writer.integerField(6, 1)
    })
  }
}

// The .proto files as serialised FileDescriptorProtos for server reflection. Made from the tables at the first
// reflection call.

import { ProtobufWriter } from '../../protobuf/protobuf-writer.ts'
import {
  schemaFinder,
  type FieldSchema,
  type MessageSchema,
  type RpcRows,
  type WireFile,
} from '../../protobuf/message-schema.ts'

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

/** A file together with what it imports. */
type Scope = {
  readonly file: WireFile
  readonly schemaOf: (message: string) => MessageSchema
  /** The name of a type with its package. A file may have a type of the same name as a file that it does not import. */
  readonly fullName: (type: string) => string
}

function scopeOf(file: WireFile, files: readonly WireFile[]): Scope {
  const visible = [...importedBy(file, files), file]
  const merged = <T>(part: (one: WireFile) => Readonly<Record<string, T>>): Record<string, T> =>
    Object.assign({}, ...visible.map(part)) as Record<string, T>
  return {
    file,
    schemaOf: schemaFinder(
      merged(({ messages }) => messages),
      merged(({ enums }) => enums),
    ),
    fullName: (type) => {
      const owner = visible.findLast(({ messages, enums }) => type in messages || type in enums) ?? file
      return `.${owner.package}.${type}`
    },
  }
}

/** The files that a file imports, and what those import. */
export function importedBy(file: WireFile, files: readonly WireFile[]): WireFile[] {
  const imported = files.filter(({ name }) => file.dependencies.includes(name))
  return [...new Set(imported.flatMap((one) => [...importedBy(one, files), one]))]
}

/** FileDescriptorProto: name 1, package 2, dependency 3, message_type 4, enum_type 5, service 6, syntax 12. */
export function encodeFileDescriptor(file: WireFile, files: readonly WireFile[]): Buffer {
  const scope = scopeOf(file, files)
  const writer = new ProtobufWriter(4096)
  writer.textField(1, file.name)
  writer.textField(2, file.package)
  for (const dependency of file.dependencies) writer.textField(3, dependency)
  for (const name of childrenOf(file.messages, '')) writer.nested(4, () => writeMessageType(writer, scope, name))
  for (const name of childrenOf(file.enums, '')) writer.nested(5, () => writeEnumType(writer, file, name))
  for (const [name, rpcs] of Object.entries(file.services))
    writer.nested(6, () => writeService(writer, scope, name, rpcs))
  writer.textField(12, 'proto3')
  return writer.finish()
}

/** Every name that a file defines, with its package → the file. */
export function symbolTable(files: readonly WireFile[]): ReadonlyMap<string, WireFile> {
  const symbols = new Map<string, WireFile>()
  for (const file of files) {
    const full = (name: string): string => `${file.package}.${name}`
    for (const name of [...Object.keys(file.messages), ...Object.keys(file.enums)]) symbols.set(full(name), file)
    for (const [service, rpcs] of Object.entries(file.services)) {
      symbols.set(full(service), file)
      for (const rpc of Object.keys(rpcs)) symbols.set(`${full(service)}.${rpc}`, file)
    }
  }
  return symbols
}

export const serviceNames = (files: readonly WireFile[]): string[] =>
  files.flatMap((file) => Object.keys(file.services).map((name) => `${file.package}.${name}`))

const parentOf = (name: string): string => name.split('.').slice(0, -1).join('.')
const childrenOf = (all: Readonly<Record<string, unknown>>, parent: string): string[] =>
  Object.keys(all).filter((name) => parentOf(name) === parent)
const lastOf = (name: string): string => name.split('.').at(-1) ?? ''

/** DescriptorProto: name 1, field 2, nested_type 3, enum_type 4, options 7, oneof_decl 8. */
function writeMessageType(writer: ProtobufWriter, scope: Scope, name: string): void {
  const { file } = scope
  const { fields } = scope.schemaOf(name)
  const oneofs = [...new Set(fields.flatMap(({ oneof }) => (oneof === null ? [] : [oneof])))]
  writer.textField(1, lastOf(name))
  for (const field of fields) writer.nested(2, () => writeField(writer, scope, name, field, oneofs))
  for (const child of childrenOf(file.messages, name)) writer.nested(3, () => writeMessageType(writer, scope, child))
  for (const field of fields) if (field.kind === 'map') writer.nested(3, () => writeEntryType(writer, scope, field))
  for (const child of childrenOf(file.enums, name)) writer.nested(4, () => writeEnumType(writer, file, child))
  for (const oneof of oneofs) writer.nested(8, () => writer.textField(1, oneof))
}

/** `some_name` → `SomeNameEntry`, the message that a map's entries are. */
const entryName = (wireName: string): string =>
  `${wireName.replace(/(^|_)([a-z0-9])/g, (_, _start, letter: string) => letter.toUpperCase())}Entry`

function writeEntryType(writer: ProtobufWriter, scope: Scope, field: FieldSchema): void {
  const key = { wireName: 'key', name: 'key', number: 1, type: field.keyType ?? 'string', enum: null } as const
  const value = { wireName: 'value', name: 'value', number: 2 } as const
  writer.textField(1, entryName(field.wireName))
  for (const part of [key, value])
    writer.nested(2, () => writeField(writer, scope, '', { ...field, kind: 'single', ...part }, []))
  writer.nested(7, () => writer.integerField(7, 1))
}

/** FieldDescriptorProto: name 1, number 3, label 4, type 5, type_name 6, oneof_index 9, json_name 10. */
function writeField(
  writer: ProtobufWriter,
  scope: Scope,
  owner: string,
  field: FieldSchema,
  oneofs: readonly string[],
): void {
  const { wireName, type, kind, oneof } = field
  const isMap = kind === 'map'
  const named = isMap ? `.${scope.file.package}.${owner}.${entryName(wireName)}` : scope.fullName(type)
  const scalar = fieldTypes[type]
  const typeNumber = isMap ? 11 : (scalar ?? (field.enum === null ? 11 : 14))
  writer.textField(1, wireName)
  writer.integerField(3, field.number)
  writer.integerField(4, kind === 'repeated' || isMap ? repeatedLabel : optionalLabel)
  writer.integerField(5, typeNumber)
  if (typeNumber === 11 || typeNumber === 14) writer.textField(6, named)
  if (oneof !== null) writer.integerField(9, oneofs.indexOf(oneof))
  writer.textField(10, field.name)
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
function writeService(writer: ProtobufWriter, scope: Scope, name: string, rpcs: RpcRows): void {
  writer.textField(1, name)
  for (const [rpc, types] of Object.entries(rpcs)) {
    const [input, output] = types.map((type) => ({
      isStream: type.startsWith('stream '),
      name: scope.fullName(type.replace('stream ', '')),
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

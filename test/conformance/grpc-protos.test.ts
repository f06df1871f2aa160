// Our .proto files, the tables in the code and what reflection hands out all say what Triton's wire says.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import protobuf from 'protobufjs'
import descriptor from 'protobufjs/ext/descriptor.js'
import { encodeFileDescriptor } from '../../src/protocol/grpc/file-descriptors.ts'
import { wireFiles, wireMessage, type WireFile } from '../../src/protocol/grpc/wire-schema.ts'

type Field = { name: string; number: number; type: string; oneof?: string }
type RecordedFile = {
  package: string
  services: Record<string, Record<string, { request: string; response: string }>>
  messages: Record<string, Field[]>
  enums: Record<string, Record<string, number>>
}

const folder = path.join(import.meta.dirname, '../../proto')
const recorded = JSON.parse(
  readFileSync(path.join(import.meta.dirname, '../fixtures/triton-wire.json'), 'utf8'),
) as Record<string, RecordedFile>
// Triton's own health service has no Watch.
const health = recorded['health.proto']?.services['grpc.health.v1.Health']
assert.ok(health)
health['Watch'] = {
  request: 'grpc.health.v1.HealthCheckRequest',
  response: 'stream grpc.health.v1.HealthCheckResponse',
}

const sorted = (fields: readonly Field[]): Field[] => fields.toSorted((a, b) => a.number - b.number)

/** A parsed file, in the form of the recording. */
function describe(root: protobuf.Root, packageName: string, belongs: (name: string) => boolean): RecordedFile {
  const described: RecordedFile = { package: packageName, services: {}, messages: {}, enums: {} }
  const fullName = (object: protobuf.ReflectionObject): string => object.fullName.slice(1)
  const typeOf = (field: protobuf.Field): string =>
    field.resolvedType === null ? field.type : fullName(field.resolvedType)
  const walk = (namespace: protobuf.NamespaceBase): void => {
    for (const object of namespace.nestedArray) {
      const name = fullName(object)
      if (object instanceof protobuf.Enum) {
        if (belongs(name)) described.enums[name] = { ...object.values }
      } else if (object instanceof protobuf.Service) {
        if (belongs(name)) {
          described.services[name] = Object.fromEntries(
            object.methodsArray.map((method) => [
              method.name,
              {
                request: `${method.requestStream ? 'stream ' : ''}${fullName(method.resolvedRequestType as protobuf.Type)}`,
                response: `${method.responseStream ? 'stream ' : ''}${fullName(method.resolvedResponseType as protobuf.Type)}`,
              },
            ]),
          )
        }
      } else if (object instanceof protobuf.Type) {
        const isEntry = (object.options?.['map_entry'] as boolean | undefined) === true
        if (belongs(name) && !isEntry)
          described.messages[name] = sorted(object.fieldsArray.map((field) => describeField(field, typeOf)))
        walk(object)
      } else if (object instanceof protobuf.Namespace) walk(object)
    }
  }
  walk(root)
  return described
}

function describeField(field: protobuf.Field, typeOf: (field: protobuf.Field) => string): Field {
  const inner = typeOf(field)
  const type = field.map
    ? `map<${(field as unknown as protobuf.MapField).keyType},${inner}>`
    : `${field.repeated ? 'repeated ' : ''}${inner}`
  const oneof = field.partOf?.name
  return { name: field.name, number: field.id, type, ...(oneof === undefined ? {} : { oneof }) }
}

function expectedFile(name: string): RecordedFile {
  const file = recorded[name] as RecordedFile
  const messages = Object.fromEntries(Object.entries(file.messages).map(([key, fields]) => [key, sorted(fields)]))
  return { package: file.package, services: file.services, messages, enums: file.enums }
}

for (const name of Object.keys(recorded)) {
  test(`every field name, number and type of proto/${name} is Triton's`, () => {
    const root = new protobuf.Root()
    root.resolvePath = (_origin, target) => path.join(folder, path.basename(target))
    root.loadSync(name, { keepCase: true })
    root.resolveAll()
    const expected = expectedFile(name)
    const isMine = (full: string): boolean =>
      full in expected.messages || full in expected.enums || full in expected.services || name !== 'grpc_service.proto'
    assert.deepEqual(describe(root, expected.package, isMine), expected)
  })
}

/** A table, in the form of the recording. */
function describeTable(file: WireFile): RecordedFile {
  const full = (name: string): string => `${file.package}.${name}`
  const isScalar = /^(double|float|u?int(32|64)|bool|string|bytes)$/
  const typeName = (type: string): string => (isScalar.test(type) ? type : full(type))
  const streamName = (type: string): string =>
    type.startsWith('stream ') ? `stream ${full(type.slice('stream '.length))}` : full(type)
  return {
    package: file.package,
    services: Object.fromEntries(
      Object.entries(file.services).map(([service, rpcs]) => [
        full(service),
        Object.fromEntries(
          Object.entries(rpcs).map(([rpc, [request, response]]) => [
            rpc,
            { request: streamName(request), response: streamName(response) },
          ]),
        ),
      ]),
    ),
    messages: Object.fromEntries(
      Object.keys(file.messages).map((name) => [
        full(name),
        sorted(
          wireMessage(name).fields.map(({ wireName, number, type, kind, keyType, oneof }) => ({
            name: wireName,
            number,
            type:
              kind === 'repeated'
                ? `repeated ${typeName(type)}`
                : kind === 'map'
                  ? `map<${keyType ?? ''},${typeName(type)}>`
                  : typeName(type),
            ...(oneof === null ? {} : { oneof }),
          })),
        ),
      ]),
    ),
    enums: Object.fromEntries(Object.entries(file.enums).map(([name, numbers]) => [full(name), { ...numbers }])),
  }
}

test('the tables that the codec reads are the .proto files', () => {
  for (const file of wireFiles) {
    if (file.name in recorded) assert.deepEqual(describeTable(file), expectedFile(file.name), file.name)
    else {
      const root = protobuf.parse(readFileSync(path.join(folder, file.name), 'utf8'), { keepCase: true }).root
      root.resolveAll()
      assert.deepEqual(
        describe(root, file.package, () => true),
        describeTable(file),
        file.name,
      )
    }
  }
})

const camelCase = (name: string): string => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

/** The library reads descriptors into camel case. */
const inCamelCase = (file: RecordedFile): RecordedFile => ({
  ...file,
  messages: Object.fromEntries(
    Object.entries(file.messages).map(([name, fields]) => [
      name,
      fields.map((field) => ({ ...field, name: camelCase(field.name) })),
    ]),
  ),
})

type Named = { readonly name: string; readonly field: readonly { readonly name: string }[] }

test('what reflection hands out is the same again', () => {
  for (const file of wireFiles) {
    const files = [...wireFiles.filter((other) => file.dependencies.includes(other.name)), file]
    const set = {
      file: files.map((one) => descriptor.FileDescriptorProto.decode(encodeFileDescriptor(one, wireFiles))),
    }
    const root = (protobuf.Root as unknown as { fromDescriptor(set: object): protobuf.Root }).fromDescriptor(set)
    root.resolveAll()
    const expected = inCamelCase(describeTable(file))
    const isMine = (full: string): boolean =>
      full in expected.messages || full in expected.enums || full in expected.services
    assert.deepEqual(describe(root, file.package, isMine), expected, file.name)
    const [first] = (set.file.at(-1) as unknown as { messageType: Named[] }).messageType
    const [name = ''] = Object.keys(file.messages)
    assert.deepEqual(
      [first?.name, first?.field.map((field) => field.name)],
      [name, wireMessage(name).fields.map(({ wireName }) => wireName)],
    )
  }
})

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import protobuf from 'protobufjs'
import { schemasOf } from './message-schema.ts'
import { parseProtoFile, readProtoFile } from './proto-file.ts'

const folder = path.join(import.meta.dirname, '../../proto')
const names = globSync('**/*.proto', { cwd: folder }).map((name) => name.replaceAll(path.sep, '/'))

const shortName = (full: string): string => full.replace(/^\.?(?:[a-z_][a-z0-9_]*\.)*(?=[A-Z])/, '')

function objectsIn(namespace: protobuf.NamespaceBase): protobuf.ReflectionObject[] {
  return namespace.nestedArray.flatMap((one) => [one, ...(one instanceof protobuf.Namespace ? objectsIn(one) : [])])
}

/** The objects of a file, as protobufjs reads them together with what it imports. */
function objectsOf(name: string): protobuf.ReflectionObject[] {
  const root = new protobuf.Root()
  const read = (file: string, seen: Set<string>): void => {
    if (seen.has(file)) return
    seen.add(file)
    for (const one of readProtoFile(file).dependencies) read(one, seen)
    if (file !== name) protobuf.parse(readFileSync(path.join(folder, file), 'utf8'), root, { keepCase: true })
  }
  read(name, new Set())
  const others = new Set(objectsIn(root))
  protobuf.parse(readFileSync(path.join(folder, name), 'utf8'), root, { keepCase: true })
  root.resolveAll()
  return objectsIn(root).filter((one) => !others.has(one))
}

function fieldRow(field: protobuf.Field): string {
  const named = shortName(field.resolvedType?.fullName ?? field.type)
  const type = field instanceof protobuf.MapField ? `map<${field.keyType}, ${named}>` : named
  const oneof = field.partOf === null ? '' : `oneof ${field.partOf.name} `
  return `${field.repeated ? 'repeated ' : oneof}${type} ${field.name} = ${field.id}`
}

const rpcRow = (rpc: protobuf.Method): string[] => [
  `${rpc.requestStream === true ? 'stream ' : ''}${shortName(rpc.resolvedRequestType?.fullName ?? '')}`,
  `${rpc.responseStream === true ? 'stream ' : ''}${shortName(rpc.resolvedResponseType?.fullName ?? '')}`,
]

for (const name of names) {
  test(`the tables of proto/${name} are what protobufjs reads in it`, () => {
    const expected: { [part in 'messages' | 'enums' | 'services']: Record<string, unknown> } = {
      messages: {},
      enums: {},
      services: {},
    }
    for (const object of objectsOf(name)) {
      const short = shortName(object.fullName)
      if (object instanceof protobuf.Enum) expected.enums[short] = { ...object.values }
      else if (object instanceof protobuf.Type) expected.messages[short] = object.fieldsArray.map(fieldRow)
      else if (object instanceof protobuf.Service) {
        expected.services[short] = Object.fromEntries(object.methodsArray.map((rpc) => [rpc.name, rpcRow(rpc)]))
      }
    }
    const { messages, enums, services, dependencies } = readProtoFile(name)
    assert.deepEqual({ messages, enums, services }, expected)
    for (const dependency of dependencies) assert.ok(names.includes(dependency), dependency)
  })
}

const headed = (text: string): string => `syntax = "proto3"; package p; ${text}`

test('a type is looked for in the message around it, and then outside', () => {
  const text = 'message A { message B { C c = 1; A.C d = 2; p.E e = 3; } enum C { ZERO = 0; } B b = 1; } message E {}'
  const { messages } = parseProtoFile('a.proto', headed(text))
  assert.deepEqual(messages, { A: ['A.B b = 1'], 'A.B': ['A.C c = 1', 'A.C d = 2', 'E e = 3'], E: [] })
  assert.equal(schemasOf([parseProtoFile('a.proto', headed(text))])('A.B').byName.get('c')?.enum?.name, 'A.C')
})

describe('a file is refused with the word that cannot be read', () => {
  const cases: [what: string, text: string, word: string][] = [
    ['another syntax', 'syntax = "proto2";', '\'"proto2"\' as word 3'],
    ['an option of a file', headed('option java_package = "a";'), "'option' as word 8"],
    ['an option of a field', headed('message A { int32 a = 1 [deprecated = true]; }'), "'[' as word 15"],
    ['a reserved number', headed('message A { reserved 2; }'), "'2' as word 12"],
    ['a group', headed('message A { repeated group B = 1 { } }'), "'{' as word 16"],
    ['a negative number', headed('enum A { B = -1; }'), "'-' as word 13"],
    ['the number 0 of a field', headed('message A { int32 a = 0; }'), "'0' as word 14"],
    ['a file without its end', headed('message A { int32 a = 1;'), 'no end'],
    ['a service with a message in it', headed('service A { message B {} }'), "'message' as word 11"],
  ]
  for (const [what, text, word] of cases) {
    test(what, () => assert.throws(() => parseProtoFile('a.proto', text), { message: `proto/a.proto has ${word}` }))
  }
})

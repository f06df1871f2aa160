import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { enumTypes, messageSchema, messageTypes } from '../../src/config/model-config-schema.ts'

type WireField = { readonly name: string; readonly number: number; readonly type: string; readonly oneof?: string }
type WireFile = {
  readonly messages: Readonly<Record<string, readonly WireField[]>>
  readonly enums: Readonly<Record<string, Readonly<Record<string, number>>>>
}

const wireText = await readFile(join(import.meta.dirname, '../fixtures/triton-wire.json'), 'utf8')
const wire = (JSON.parse(wireText) as Record<string, WireFile>)['model_config.proto']
assert.ok(wire)

const plain = (type: string): string => type.replaceAll('inference.', '')
const byNumber = (a: WireField, b: WireField): number => a.number - b.number

test('every message of model_config.proto is in the schema, field for field', () => {
  const ours = Object.fromEntries(
    Object.keys(messageTypes).map((name) => [
      name,
      messageSchema(name)
        .fields.map(({ wireName, number, type, kind, keyType, oneof }): WireField => {
          const wireType =
            kind === 'repeated' ? `repeated ${type}` : kind === 'map' ? `map<${keyType ?? ''},${type}>` : type
          return { name: wireName, number, type: wireType, ...(oneof === null ? {} : { oneof }) }
        })
        .sort(byNumber),
    ]),
  )
  const theirs = Object.fromEntries(
    Object.entries(wire.messages).map(([name, fields]) => [
      plain(name),
      fields.map((field) => ({ ...field, type: plain(field.type) })).sort(byNumber),
    ]),
  )
  assert.deepEqual(ours, theirs)
})

test('every enum of model_config.proto is in the schema with its numbers', () => {
  const theirs = Object.fromEntries(Object.entries(wire.enums).map(([name, numbers]) => [plain(name), numbers]))
  assert.deepEqual(enumTypes, theirs)
})

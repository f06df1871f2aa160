// Writes a ModelConfig as config.pbtxt. Fields at their default are left out; reading the text gives the same ModelConfig.

import {
  modelConfigSchema,
  scalarDefault,
  type FieldSchema,
  type MessageSchema,
} from '../config/model-config-schema.ts'
import type { ModelConfig } from '../config/model-config.ts'

type Message = Record<string, unknown>

export function printModelConfigText(config: ModelConfig): string {
  const lines: string[] = []
  printMessage(modelConfigSchema(), config as unknown as Message, '', lines)
  return lines.map((line) => `${line}\n`).join('')
}

function printMessage(schema: MessageSchema, message: Message, indent: string, lines: string[]): void {
  for (const field of schema.fields) {
    const value = message[field.name]
    if (field.kind === 'map') {
      for (const [key, entry] of value as Map<unknown, unknown>) printMapEntry(field, key, entry, indent, lines)
    } else if (field.kind === 'repeated') printList(field, value as unknown[], indent, lines)
    // A oneof that is set counts even at its default: `zero_data: false` is a choice.
    else if (value !== null && (field.kind === 'oneof' || field.message !== null || !isDefault(field, value))) {
      printField(field, value, indent, lines)
    }
  }
}

/** Object.is, so that a negative zero is not lost. */
const isDefault = (field: FieldSchema, value: unknown): boolean => Object.is(value, scalarDefault(field))

function printField(field: FieldSchema, value: unknown, indent: string, lines: string[], name = field.wireName): void {
  if (field.message === null) {
    lines.push(`${indent}${name}: ${printScalar(field.type, field.enum !== null, value)}`)
    return
  }
  lines.push(`${indent}${name} {`)
  printMessage(field.message, value as Message, `${indent}  `, lines)
  lines.push(`${indent}}`)
}

function printList(field: FieldSchema, values: readonly unknown[], indent: string, lines: string[]): void {
  if (field.message !== null) {
    for (const value of values) printField(field, value, indent, lines)
  } else if (values.length > 0) {
    const printed = values.map((value) => printScalar(field.type, field.enum !== null, value))
    lines.push(`${indent}${field.wireName}: [ ${printed.join(', ')} ]`)
  }
}

function printMapEntry(field: FieldSchema, key: unknown, value: unknown, indent: string, lines: string[]): void {
  lines.push(`${indent}${field.wireName} {`, `${indent}  key: ${printScalar(field.keyType ?? 'string', false, key)}`)
  printField(field, value, `${indent}  `, lines, 'value')
  lines.push(`${indent}}`)
}

function printScalar(type: string, isEnum: boolean, value: unknown): string {
  if (type === 'string') return quote(String(value))
  if (isEnum || typeof value !== 'number') return String(value)
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  return Object.is(value, -0) ? '-0' : String(value)
}

const escapes: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '"': '\\"',
  '\\': '\\\\',
}

/** Control characters and lone surrogates are the only ones that cannot stand in the text as they are. */
function quote(text: string): string {
  // eslint-disable-next-line no-control-regex
  const escaped = text.replace(/[\u0000-\u001f"\\\u007f]/g, (character) => {
    return escapes[character] ?? `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`
  })
  return `"${escaped}"`
}

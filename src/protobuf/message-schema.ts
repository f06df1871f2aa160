// Messages of .proto files: rows of a table → what readers, writers and printers ask about a field.

type FieldKind = 'single' | 'oneof' | 'repeated' | 'map'
/** The last member is the oneof of a `oneof` field, and the type of the keys of a `map`. */
export type FieldRow = readonly [name: string, number: number, type: string, kind: FieldKind, oneofOrKeyType?: string]
export type MessageRows = Readonly<Record<string, readonly FieldRow[]>>
export type EnumRows = Readonly<Record<string, Readonly<Record<string, number>>>>

export type FieldSchema = {
  readonly wireName: string
  readonly name: string
  readonly number: number
  readonly type: string
  readonly kind: FieldKind
  readonly oneof: string | null
  readonly keyType: string | null
  readonly message: MessageSchema | null
  readonly enum: EnumSchema | null
}
type EnumSchema = { readonly name: string; readonly numbers: ReadonlyMap<string, number> }
export type MessageSchema = {
  readonly name: string
  readonly fields: readonly FieldSchema[]
  readonly byWireName: ReadonlyMap<string, FieldSchema>
  readonly byName: ReadonlyMap<string, FieldSchema>
  readonly byNumber: ReadonlyMap<number, FieldSchema>
}

const camelCase = (wireName: string): string =>
  wireName.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

/** Finds a message by its name without the package. A schema is made when somebody first asks for it. */
export function schemaFinder(messages: MessageRows, enums: EnumRows): (name: string) => MessageSchema {
  const known = new Map<string, MessageSchema>()
  const enumOf = (name: string): EnumSchema | null => {
    const numbers = enums[name]
    return numbers === undefined ? null : { name, numbers: new Map(Object.entries(numbers)) }
  }
  const find = (name: string): MessageSchema => {
    const found = known.get(name)
    if (found !== undefined) return found
    const rows = messages[name]
    if (rows === undefined) throw new Error(`no message type '${name}' in the tables`)
    const fields: FieldSchema[] = rows.map(([wireName, number, type, kind, extra]) => ({
      wireName,
      name: camelCase(wireName),
      number,
      type,
      kind,
      oneof: kind === 'oneof' ? (extra ?? null) : null,
      keyType: kind === 'map' ? (extra ?? null) : null,
      message: type in messages ? find(type) : null,
      enum: enumOf(type),
    }))
    const schema: MessageSchema = {
      name,
      fields,
      byWireName: new Map(fields.map((field) => [field.wireName, field])),
      byName: new Map(fields.map((field) => [field.name, field])),
      byNumber: new Map(fields.map((field) => [field.number, field])),
    }
    known.set(name, schema)
    return schema
  }
  return find
}

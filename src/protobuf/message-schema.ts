// Messages of .proto files: rows of a table, written as in the .proto file → what readers, writers and printers ask about a field.

type FieldKind = 'single' | 'oneof' | 'repeated' | 'map'
/** A field as in a .proto file; `oneof <its name>` stands before a field that is one of several. */
export type MessageRows = Readonly<Record<string, readonly `${string} ${string} = ${number}`[]>>
export type EnumRows = Readonly<Record<string, Readonly<Record<string, number>>>>
/** RPC → request and response; `stream ` in front of a type makes it a stream. */
export type RpcRows = Readonly<Record<string, readonly [request: string, response: string]>>

/** A .proto file: which package, messages, enums and services it has. */
export type WireFile = {
  readonly name: string
  readonly package: string
  readonly dependencies: readonly string[]
  readonly messages: MessageRows
  readonly enums: EnumRows
  readonly services: Readonly<Record<string, RpcRows>>
}

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

/** The messages of several files. Of two messages with one name the one of the later file is found. */
export const schemasOf = (files: readonly Pick<WireFile, 'messages' | 'enums'>[]): ((name: string) => MessageSchema) =>
  schemaFinder(
    Object.assign({}, ...files.map(({ messages }) => messages)) as MessageRows,
    Object.assign({}, ...files.map(({ enums }) => enums)) as EnumRows,
  )

/** Finds a message by its name without the package. A schema is made when somebody first asks for it. */
export function schemaFinder(messages: MessageRows, enums: EnumRows): (name: string) => MessageSchema {
  const known = new Map<string, MessageSchema>()
  const enumOf = (name: string): EnumSchema | null => {
    const numbers = enums[name]
    return numbers === undefined ? null : { name, numbers: new Map(Object.entries(numbers)) }
  }
  const fieldOf = (row: string): FieldSchema => {
    const [, repeated, keyType = null, mapped, oneof = null, plain = '', wireName = '', number = ''] =
      /^(?:(repeated )|map<(\w+), ([\w.]+)> |oneof (\w+) )?(?:([\w.]+) )?(\w+) = (\d+)$/.exec(row) ?? []
    const type = mapped ?? plain
    return {
      wireName,
      name: camelCase(wireName),
      number: Number(number),
      type,
      kind: repeated !== undefined ? 'repeated' : keyType !== null ? 'map' : oneof !== null ? 'oneof' : 'single',
      oneof,
      keyType,
      message: type in messages ? find(type) : null,
      enum: enumOf(type),
    }
  }
  const find = (name: string): MessageSchema => {
    const found = known.get(name)
    if (found !== undefined) return found
    const rows = messages[name]
    if (rows === undefined) throw new Error(`no message type '${name}' in the tables`)
    const fields: FieldSchema[] = []
    const [byWireName, byName, byNumber] = [new Map<string, FieldSchema>(), new Map<string, FieldSchema>(), new Map<number, FieldSchema>()] // prettier-ignore
    const schema: MessageSchema = { name, fields, byWireName, byName, byNumber }
    // Known before its fields are: a message may hold messages of its own type.
    known.set(name, schema)
    for (const field of rows.map(fieldOf)) {
      fields.push(field)
      byWireName.set(field.wireName, field)
      byName.set(field.name, field)
      byNumber.set(field.number, field)
    }
    return schema
  }
  return find
}

// What a codec must know of a message: its fields, as tables of .proto files list them.

export type WireField = {
  readonly wireName: string
  readonly name: string
  readonly number: number
  readonly type: string
  readonly kind: 'single' | 'repeated' | 'map' | 'oneof'
  readonly oneof: string | null
  readonly keyType: string
  readonly message: WireMessage | null
  readonly enum: ReadonlyMap<string, number> | null
}

export type WireMessage = {
  readonly name: string
  readonly fields: readonly WireField[]
  readonly byNumber: ReadonlyMap<number, WireField>
}

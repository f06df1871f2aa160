// Reads the few facts that the load needs from a ModelStreamInferResponse, without building objects.

type StreamResponse = {
  /** '' for a good response. */
  readonly error: string
  readonly isFinal: boolean
  /** The response has no outputs and only marks the end. */
  readonly isEmpty: boolean
}

const fields = { errorMessage: 1, inferResponse: 2 }
const responseFields = { parameters: 4, outputs: 5 }
const finalKey = Buffer.from('triton_final_response')
const good: StreamResponse = { error: '', isFinal: false, isEmpty: false }
const goodFinal: StreamResponse = { error: '', isFinal: true, isEmpty: false }
const emptyFinal: StreamResponse = { error: '', isFinal: true, isEmpty: true }

// HOT: once per response. Allocates for errors only.
export function readStreamResponse(message: Buffer): StreamResponse {
  let error = ''
  let final: boolean | null = null
  let isEmpty = true
  const walk = new FieldWalk(message, 0, message.length)
  while (walk.next()) {
    if (walk.field === fields.errorMessage) error = message.toString('utf8', walk.start, walk.end)
    if (walk.field !== fields.inferResponse) continue
    const inner = new FieldWalk(message, walk.start, walk.end)
    while (inner.next()) {
      if (inner.field === responseFields.outputs) isEmpty = false
      if (inner.field === responseFields.parameters && isFinalEntry(message, inner.start)) {
        final = message[inner.end - 1] === 1
      }
    }
  }
  // A refused request gets only this answer, without a final flag. After an error of a model more may come.
  if (error !== '') return { error, isFinal: final ?? true, isEmpty: true }
  return final === true ? (isEmpty ? emptyFinal : goodFinal) : good
}

/** `triton_final_response` as an entry of the map: the key, then the value, whose last byte is 1 for true. */
const isFinalEntry = (bytes: Buffer, start: number): boolean =>
  bytes.compare(finalKey, 0, finalKey.length, start + 2, Math.min(bytes.length, start + 2 + finalKey.length)) === 0

/** Steps over the fields of one message. Throws when they do not fit into it. */
class FieldWalk {
  readonly #bytes: Buffer
  readonly #end: number
  #at: number
  field = 0
  start = 0
  end = 0

  constructor(bytes: Buffer, at: number, end: number) {
    this.#bytes = bytes
    this.#at = at
    this.#end = end
  }

  next(): boolean {
    if (this.#at >= this.#end) return false
    const tag = this.#varint()
    this.field = Math.floor(tag / 8)
    const wireType = tag % 8
    const length =
      wireType === 2 ? this.#varint() : wireType === 1 ? 8 : wireType === 5 ? 4 : wireType === 0 ? 0 : Infinity
    this.start = this.#at
    if (wireType === 0) this.#varint()
    else this.#at += length
    this.end = this.#at
    if (this.end > this.#end) throw new Error('the server sent a message that is cut short')
    return true
  }

  #varint(): number {
    let value = 0
    let scale = 1
    for (let count = 0; count < 10; count++) {
      const byte = this.#bytes[this.#at++] ?? 0
      value += (byte & 127) * scale
      if (byte < 128) return value
      scale *= 128
    }
    throw new Error('the server sent a number that is too long')
  }
}

// A request as bytes, made once before the load begins. The parts that change (the id and the two flags of a sequence)
// have a fixed size, so that a send copies only the head.

/** The sequence parameters of one request. */
export type SequenceStamp = { readonly id: number; readonly isStart: boolean; readonly isEnd: boolean }

export type StampPlaces = {
  readonly form: 'json' | 'protobuf'
  /** All three are offsets in the head. */
  readonly idAt: number
  readonly startAt: number
  readonly endAt: number
}

export type PreparedRequest = {
  /** HTTP: the head of the request and the JSON. gRPC: the message up to the tensors. */
  readonly head: Buffer
  /** The bytes after the head, which never change; may be empty. */
  readonly tail: Buffer
  readonly stamp: StampPlaces | null
  /** With a head that changes, each request is compressed when it is sent; else the bytes are compressed already. */
  readonly compression: 'none' | 'gzip' | 'deflate'
  /** Which stream of the input data, and which step in it. */
  readonly stream: number
  readonly step: number
}

/** The widest id that fits in both forms; in JSON blanks fill up a shorter id. */
export const idPlaceholder = 2n ** 63n - 1n
export const idDigits = String(idPlaceholder).length
/** int64 as a varint of nine bytes, whatever its value: leading zeros are allowed there. */
const idVarintBytes = 9

/** The head for one request of a sequence: a copy with the stamp in it. */
export function stampedHead({ head, stamp }: PreparedRequest, { id, isStart, isEnd }: SequenceStamp): Buffer {
  if (stamp === null) return head
  const bytes = Buffer.allocUnsafe(head.length)
  head.copy(bytes)
  if (stamp.form === 'json') {
    bytes.write(String(id).padStart(idDigits), stamp.idAt, 'latin1')
    bytes.write(isStart ? 'true ' : 'false', stamp.startAt, 'latin1')
    bytes.write(isEnd ? 'true ' : 'false', stamp.endAt, 'latin1')
    return bytes
  }
  let rest = id
  for (let at = 0; at < idVarintBytes; at++) {
    const isLast = at === idVarintBytes - 1
    bytes[stamp.idAt + at] = (rest % 128) | (isLast ? 0 : 128)
    rest = Math.floor(rest / 128)
  }
  bytes[stamp.startAt] = isStart ? 1 : 0
  bytes[stamp.endAt] = isEnd ? 1 : 0
  return bytes
}

/** Bytes that went through a message to another thread are no Buffers any more. */
export const revivedRequest = (request: PreparedRequest): PreparedRequest => ({
  ...request,
  head: bufferOf(request.head),
  tail: bufferOf(request.tail),
})

const bufferOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

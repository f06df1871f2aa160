// Messages of a gRPC stream: bytes as frames brought them → whole messages.

import { gunzipSync, inflateSync } from 'node:zlib'

const prefixBytes = 5
const maxMessageBytes = 2 ** 31 - 1

export class GrpcMessageReader {
  #partial: Buffer[] = []
  #partialBytes = 0
  #wanted = prefixBytes

  /** Calls back for every message that is complete. Its bytes are valid during the call only. */
  // HOT: once per response. 0 copies of a message that came in one frame.
  feed(chunk: Buffer, encoding: string, onMessage: (message: Buffer) => void): void {
    let bytes = chunk
    if (this.#partialBytes > 0) {
      this.#partial.push(Buffer.from(chunk))
      this.#partialBytes += chunk.length
      if (this.#partialBytes < this.#wanted) return
      bytes = Buffer.concat(this.#partial)
      this.#partial = []
      this.#partialBytes = 0
    }
    let at = 0
    for (;;) {
      const available = bytes.length - at
      const length = available < prefixBytes ? 0 : bytes.readUInt32BE(at + 1)
      if (length > maxMessageBytes) throw new Error(`the server sent a message of ${length} bytes`)
      this.#wanted = prefixBytes + length
      if (available < prefixBytes || available < this.#wanted) break
      const message = bytes.subarray(at + prefixBytes, at + this.#wanted)
      onMessage(bytes[at] === 0 ? message : unpacked(message, encoding))
      at += this.#wanted
      this.#wanted = prefixBytes
    }
    if (at === bytes.length) return
    this.#partial = [Buffer.from(bytes.subarray(at))]
    this.#partialBytes = bytes.length - at
  }
}

function unpacked(message: Buffer, encoding: string): Buffer {
  if (encoding === 'gzip') return gunzipSync(message)
  if (encoding === 'deflate') return inflateSync(message)
  throw new Error(`the answer is compressed as '${encoding}', which was not asked for`)
}

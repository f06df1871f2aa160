import { gunzipSync, inflateSync } from 'node:zlib'
import { MessageAssembler } from '../../transport/grpc/message-assembler.ts'

const maxMessageBytes = 2 ** 31 - 1

/** Messages of a gRPC stream: bytes as frames brought them → whole messages. */
export class GrpcMessageReader {
  readonly #assembler = new MessageAssembler(maxMessageBytes)

  /** Calls back for every message that is complete. Its bytes are valid during the call only. */
  // HOT: once per response. 0 copies of a message that came in one frame.
  feed(chunk: Buffer, encoding: string, onMessage: (message: Buffer) => void): void {
    this.#assembler.push(chunk)
    for (let next = this.#assembler.next(); next !== null; next = this.#assembler.next()) {
      onMessage(next.isCompressed ? unpacked(next.bytes, encoding) : next.bytes)
    }
  }
}

function unpacked(message: Buffer, encoding: string): Buffer {
  if (encoding === 'gzip') return gunzipSync(message)
  if (encoding === 'deflate') return inflateSync(message)
  throw new Error(`the answer is compressed as '${encoding}', which was not asked for`)
}

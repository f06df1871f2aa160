import type { Socket } from 'node:net'
import type { ChunkWriter } from './chunked-answer.ts'

/** A piece of up to so many bytes is copied together with its frame: one write costs less than three. */
const joinBytes = 16 * 1024

/** Puts the pieces of a streamed answer into a socket, framed as chunks where the client understands them. */
export class SocketChunkWriter implements ChunkWriter {
  readonly #socket: Socket
  readonly #isChunked: boolean

  constructor(socket: Socket, isChunked: boolean) {
    this.#socket = socket
    this.#isChunked = isChunked
  }

  write(piece: Uint8Array, onTaken: () => void): void {
    const socket = this.#socket
    // An empty chunk would end the body.
    if (!this.#isChunked || piece.length === 0) {
      socket.write(piece, onTaken)
      return
    }
    const size = `${piece.length.toString(16)}\r\n`
    if (piece.length <= joinBytes) {
      const chunk = Buffer.allocUnsafe(size.length + piece.length + 2)
      chunk.write(size, 'latin1')
      chunk.set(piece, size.length)
      chunk.write('\r\n', size.length + piece.length, 'latin1')
      socket.write(chunk, onTaken)
      return
    }
    socket.cork()
    socket.write(size, 'latin1')
    socket.write(piece)
    socket.write('\r\n', 'latin1', onTaken)
    socket.uncork()
  }

  end(): void {
    if (this.#isChunked) this.#socket.write('0\r\n\r\n', 'latin1')
  }

  destroy(): void {
    this.#socket.destroy()
  }
}

// Sockets that read into one buffer of the process. Node's own way is a new buffer of 64 KiB for each read: 256 of them
// for a tensor of 16 MiB, and collecting that garbage took longer than all the rest (bench/large-tensor.bench.ts). Bytes of a
// large body are read straight to their place in it, as many at once as the system has: no byte is copied a second time.

import { Socket } from 'node:net'
import { readPace, type PacedSocket } from './read-pace.ts'
import { ReadingTurns, type ArrivingBody } from './reading-turns.ts'

/** One buffer is enough for all sockets: a read ends before the next one begins. */
const lent = Buffer.allocUnsafeSlow(64 * 1024)

/** Fewer bytes than these are not worth a read of their own. */
export const leastDirectBytes = 64 * 1024

/** There is one event loop, so its sockets share the turns. */
const turns = new ReadingTurns()

export interface LentBytesReader {
  /** Must be done with the bytes when it returns, unless they lie where `target` said. */
  takeLent(bytes: Buffer): void
  /** Where the next bytes belong, and nothing but the next bytes; null: in the lent buffer. HOT: once per read. */
  target(): Buffer | null
  /** True while most of a large body is still to come. */
  isInLargeBody(): boolean
}

type Accepted = { _handle: { readonly useUserBuffer?: unknown } | null; _server: unknown; server: unknown }

/**
 * A socket in place of one that a server with `pauseOnConnect` has accepted. Null where the runtime does not allow this; the
 * accepted socket then works as before.
 */
export function readIntoLentBuffer(accepted: Socket, reader: () => LentBytesReader | null): Socket | null {
  // Only a socket made by us can be given a buffer, so the accepted connection is moved to such a socket.
  const before = accepted as unknown as Accepted
  const handle = before._handle
  if (handle === null || typeof handle?.useUserBuffer !== 'function') return null
  let arriving: HeldSocket | null = null
  const paced: PacedSocket = {
    // A connection that waits for another reason goes on by itself.
    goOn: () => {
      if (!socket.destroyed && !socket.isPaused()) socket.resume()
    },
  }
  const endBody = (): void => {
    if (arriving !== null) turns.onEnd(arriving)
    arriving = null
  }
  const onread = {
    buffer: (): Buffer => reader()?.target() ?? lent,
    callback: (byteCount: number, read: Buffer): boolean => {
      reader()?.takeLent(read.subarray(0, byteCount))
      const mayGoOn = read !== lent || readPace.mayGoOn(paced, byteCount)
      if (byteCount < leastDirectBytes && arriving === null) return mayGoOn
      if (reader()?.isInLargeBody() !== true) endBody()
      else if (byteCount >= leastDirectBytes) turns.onRead((arriving ??= new HeldSocket(socket)), byteCount)
      return mayGoOn
    },
  }
  const { allowHalfOpen } = accepted
  const options: unknown = { handle, onread, allowHalfOpen, readable: true, writable: true }
  const socket = new Socket(options as ConstructorParameters<typeof Socket>[0])
  const after = socket as unknown as Accepted
  after._server = before._server
  after.server = before.server
  before._handle = null
  before._server = null
  socket.once('close', endBody)
  socket.resume()
  return socket
}

class HeldSocket implements ArrivingBody {
  readonly #socket: Socket
  #isHeld = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  hold(): void {
    // A connection that waits for another reason goes on by itself.
    if (this.#isHeld || this.#socket.isPaused()) return
    this.#isHeld = true
    this.#socket.pause()
  }

  letGo(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#socket.resume()
  }
}

/** True where bytes were read straight to the place `offset` of the buffer. */
export const isInPlace = (bytes: Buffer, buffer: Buffer, offset: number): boolean =>
  bytes.buffer === buffer.buffer && bytes.byteOffset === buffer.byteOffset + offset

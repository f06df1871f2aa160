// Sockets that read into one buffer of the process. Node's own way is a new buffer of 64 KiB for each read: 256 of them
// for a tensor of 16 MiB, and collecting that garbage took longer than all the rest (bench/large-tensor.bench.ts).

import { Socket } from 'node:net'

/** One buffer is enough for all sockets: a read ends before the next one begins. */
const lent = Buffer.allocUnsafeSlow(64 * 1024)

type Accepted = { _handle: { readonly useUserBuffer?: unknown } | null; _server: unknown; server: unknown }

/**
 * A socket in place of one that a server with `pauseOnConnect` has accepted. `onBytes` must be done with the bytes when it
 * returns. Null where the runtime does not allow this; the accepted socket then works as before.
 */
export function readIntoLentBuffer(accepted: Socket, onBytes: (bytes: Buffer) => void): Socket | null {
  // Only a socket made by us can be given a buffer, so the accepted connection is moved to such a socket.
  const before = accepted as unknown as Accepted
  const handle = before._handle
  if (handle === null || typeof handle?.useUserBuffer !== 'function') return null
  const onread = {
    buffer: lent,
    callback: (byteCount: number): boolean => {
      onBytes(lent.subarray(0, byteCount))
      return true
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
  socket.resume()
  return socket
}

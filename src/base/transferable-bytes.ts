/** What a socket gives at once. A body that is longer was collected in a buffer of its own; a shorter one may share the buffer with others. */
const socketReadBytes = 64 * 1024

/** Memory of others. Node's own mark for it, `markAsUntransferable`, ends a process that leaves while memory of a driver has it. */
const borrowed = new WeakSet<ArrayBufferLike>()

/** The memory must stay where it is: its owner keeps it. */
export const keepWithOwner = (memory: ArrayBufferLike): void => void borrowed.add(memory)

/** The same bytes in a buffer that may be handed to a thread: their own, or a copy where others look at that or where its owner keeps it. */
export function transferableBytes(body: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer } = body
  const isOwn = body.byteOffset === 0 && body.length > socketReadBytes && buffer instanceof ArrayBuffer
  return isOwn && !borrowed.has(buffer) ? new Uint8Array(buffer, 0, body.length) : new Uint8Array(body)
}

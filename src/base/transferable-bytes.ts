import * as threads from 'node:worker_threads'

/** What a socket gives at once. A body that is longer was collected in a buffer of its own; a shorter one may share the buffer with others. */
const socketReadBytes = 64 * 1024

/** Node 20 has no such function, and copies by itself what is marked. */
const isMarked: ((memory: ArrayBuffer) => boolean) | undefined = threads.isMarkedAsUntransferable

/** The same bytes in a buffer that may be handed to a thread: their own, or a copy where others look at that or where its owner keeps it. */
export function transferableBytes(body: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer } = body
  const isOwn = body.byteOffset === 0 && body.length > socketReadBytes && buffer instanceof ArrayBuffer
  return isOwn && isMarked?.(buffer) !== true ? new Uint8Array(buffer, 0, body.length) : new Uint8Array(body)
}

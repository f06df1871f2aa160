// Inflates bytes in the thread pool, step by step, into one buffer. zlib's own functions keep every piece of 16 KiB until the end and
// copy all pieces at once: that takes twice the memory, and thousands of small freed pieces keep the pages between them resident.

import type { Gunzip, Inflate, Unzip, ZlibOptions } from 'node:zlib'

/** Opens one of zlib's streams: `createGunzip`, `createInflate`, `createUnzip`. */
export type OpenInflater = (options: ZlibOptions) => Gunzip | Inflate | Unzip

/** The bytes became more than was allowed. */
export class InflatedTooLarge extends Error {}

/** What one step of a thread may make: a few milliseconds, so that the bodies of several clients take turns. */
const mostStepBytes = 1024 * 1024
const leastStepBytes = 16 * 1024
/** The usual factor by which texts of numbers grow. */
const usualGrowth = 4
/** A buffer that is used by less than this share is copied into a smaller one. */
const leastUsedShare = 3 / 4

/** Calls `done` once, in a later turn: with an error, or with the inflated bytes. */
export function inflateBytes(
  open: OpenInflater,
  bytes: Buffer,
  mostBytes: number,
  done: (error: Error | null, inflated: Buffer) => void,
): void {
  const chunkSize = Math.min(mostStepBytes, Math.max(leastStepBytes, bytes.length * usualGrowth))
  const stream = open({ chunkSize })
  let room: Buffer = Buffer.allocUnsafeSlow(Math.min(mostBytes, statedSize(bytes) ?? chunkSize))
  let length = 0
  const fail = (error: Error): void => {
    stream.destroy()
    stream.off('data', take)
    free(room)
    done(error, noBytes)
  }
  const take = (piece: Buffer): void => {
    const end = length + piece.length
    if (end > mostBytes) {
      fail(new InflatedTooLarge())
      return
    }
    if (end > room.length) room = moved(room, length, Math.min(mostBytes, Math.max(end, room.length * 2)))
    room.set(piece, length)
    length = end
    // zlib uses a piece again until it is full to its end.
    if (piece.buffer.byteLength === chunkSize && piece.byteOffset + piece.length === chunkSize) free(piece)
  }
  stream.on('data', take)
  stream.once('error', fail)
  stream.once('end', () =>
    done(null, length < room.length * leastUsedShare ? moved(room, length, length) : room.subarray(0, length)),
  )
  stream.end(bytes)
}

/** What the end of a gzip body says about its size. A client may lie: it is where the buffer begins, and no more. */
function statedSize(bytes: Buffer): number | null {
  const isGzip = bytes.length >= 18 && bytes[0] === 0x1f && bytes[1] === 0x8b
  return isGzip ? bytes.readUInt32LE(bytes.length - 4) : null
}

function moved(from: Buffer, length: number, size: number): Buffer {
  const to = Buffer.allocUnsafeSlow(size)
  from.copy(to, 0, 0, length)
  free(from)
  return to
}

/** At once, and not when the garbage collector comes to it. Nobody else may know the buffer. */
const free = (buffer: Buffer): void => void (buffer.buffer as ArrayBuffer).transfer(0)

const noBytes = Buffer.alloc(0)

import fs from 'node:fs'

import { messageOf, ServerError } from '../../base/server-error.ts'
import { RegionHolders } from './region-holders.ts'

/** Up to here bytes are copied on the spot, which takes a fraction of a millisecond; a trip to the thread pool costs more. */
const inlineBytes = 1024 * 1024

/** What one system call can be asked for. */
const mostBytesAtOnce = 2 ** 31 - 1

/**
 * A registered piece of a POSIX shared memory object. It is never mapped: a client may truncate its object at any time,
 * and touching a mapping beyond the end kills the process. Bytes are read and written with positioned system calls,
 * which then fail for that one request.
 */
export class SharedMemoryRegion {
  readonly name: string
  readonly key: string
  readonly offset: number
  readonly byteSize: number
  readonly holders = new RegionHolders()
  readonly #fd: number

  constructor(fields: { name: string; key: string; offset: number; byteSize: number; fd: number }) {
    this.name = fields.name
    this.key = fields.key
    this.offset = fields.offset
    this.byteSize = fields.byteSize
    this.#fd = fields.fd
  }

  /** Closes the object now, or when the last request that uses it has ended; then calls `gone`. */
  leave(gone: () => void): void {
    this.holders.leave(() => {
      fs.closeSync(this.#fd)
      gone()
    })
  }

  /** Fills the buffer. Calls `done` before it returns when there are few bytes, later otherwise; exactly once. */
  read(offset: number, bytes: Buffer, done: (error: ServerError | null) => void): void {
    const byteSize = bytes.length
    const step = (at: number): void => {
      if (at === byteSize) {
        done(null)
        return
      }
      const onRead = (reason: Error | null, count: number): void => {
        if (reason !== null) done(this.#failure('read from', reason))
        else if (count === 0) done(this.#truncated(offset, byteSize))
        else step(at + count)
      }
      const length = Math.min(byteSize - at, mostBytesAtOnce)
      const position = this.offset + offset + at
      if (byteSize > inlineBytes) fs.read(this.#fd, bytes, at, length, position, onRead)
      else onRead(...attempt(() => fs.readSync(this.#fd, bytes, at, length, position)))
    }
    step(0)
  }

  /** Like `read`. The bytes must stay as they are until `done`. */
  write(offset: number, bytes: Uint8Array, done: (error: ServerError | null) => void): void {
    const step = (at: number): void => {
      if (at === bytes.length) {
        done(null)
        return
      }
      const onWritten = (reason: Error | null, count: number): void => {
        if (reason !== null) done(this.#failure('write to', reason))
        else step(at + count)
      }
      const length = Math.min(bytes.length - at, mostBytesAtOnce)
      const position = this.offset + offset + at
      if (bytes.length > inlineBytes) fs.write(this.#fd, bytes, at, length, position, onWritten)
      else onWritten(...attempt(() => fs.writeSync(this.#fd, bytes, at, length, position)))
    }
    // Writing behind the end would make the client's object longer again, which it never asked for.
    const [reason, size] = attempt(() => fs.fstatSync(this.#fd).size)
    if (reason !== null) done(this.#failure('write to', reason))
    else if (size < this.offset + offset + bytes.length) done(this.#truncated(offset, bytes.length))
    else step(0)
  }

  #truncated(offset: number, byteSize: number): ServerError {
    const start = this.offset + offset
    return ServerError.withoutStack(
      'INVALID_ARG',
      `shared memory region '${this.name}' has been truncated: bytes ${start} to ${start + byteSize} are no longer all ` +
        `in its object '${this.key}'`,
    )
  }

  #failure(what: string, reason: Error): ServerError {
    return ServerError.withoutStack(
      'INTERNAL',
      `failed to ${what} shared memory region '${this.name}': ${messageOf(reason)}`,
    )
  }
}

function attempt(act: () => number): [Error | null, number] {
  try {
    return [null, act()]
  } catch (reason) {
    return [reason instanceof Error ? reason : new Error(String(reason)), 0]
  }
}

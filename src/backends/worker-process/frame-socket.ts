// The socket between the server and a thread or process that runs a model: frames in both directions.

import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { messageOf } from '../../base/server-error.ts'
import { FrameStream } from './frame-stream.ts'
import { FrameWriter } from './frame-writer.ts'

type FrameSocketEvents = {
  onFrame(frame: Buffer): void
  /** The other end broke the protocol. */
  onBroken(what: string): void
  /** No more frames come. */
  onClose(): void
}

/** More than any batch of responses that travels inline; a worker that announces more is broken. */
const maxFrameBytes = 0xffff_fff0

export class FrameSocket {
  readonly #socket: Duplex
  readonly #writer: FrameWriter
  #isClosed = false

  /** `end`: a descriptor of this process, or a stream where the system has no socket pairs. */
  constructor(end: number | Duplex, events: FrameSocketEvents) {
    const frames = new FrameStream((frame) => events.onFrame(frame), maxFrameBytes)
    const onBytes = (chunk: Buffer): void => {
      if (this.#isClosed) return
      // Answers let the scheduler send the next batches. The batches for the answers of one chunk leave in one write.
      this.#writer.hold()
      try {
        frames.push(chunk)
      } catch (reason) {
        events.onBroken(messageOf(reason))
      }
      this.#writer.release()
    }
    this.#socket = typeof end === 'number' ? socketWithOwnBuffer(end, onBytes) : end
    this.#writer = new FrameWriter(this.#socket, typeof end === 'number' ? end : null)
    if (typeof end !== 'number') this.#socket.on('data', onBytes)
    this.#socket.on('error', () => undefined)
    this.#socket.once('close', () => events.onClose())
  }

  send(frame: Buffer): void {
    this.#writer.write(frame)
  }

  /** For frames that the other end does not wait for: sent with the next frame, or at the end of this turn. */
  sendSoon(frame: Buffer): void {
    this.#writer.writeSoon(frame)
  }

  close(): void {
    this.#isClosed = true
    this.#writer.close()
    this.#socket.destroy()
  }
}

/**
 * Reads into one buffer and hands out copies of the bytes that came. Node would allocate 64 KiB for each read, and a
 * response that is kept would keep all 64 KiB.
 */
function socketWithOwnBuffer(fd: number, onBytes: (chunk: Buffer) => void): Socket {
  const onread = {
    buffer: Buffer.allocUnsafe(64 * 1024),
    callback: (bytes: number, buffer: Uint8Array): boolean => {
      const chunk = Buffer.allocUnsafe(bytes)
      chunk.set(bytes === buffer.length ? buffer : buffer.subarray(0, bytes))
      onBytes(chunk)
      return true
    },
  }
  const socket = new Socket({ fd, readable: true, writable: true, onread } as ConstructorParameters<typeof Socket>[0])
  socket.resume()
  return socket
}

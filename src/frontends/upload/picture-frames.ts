// What the server and the process that decodes pictures send each other: a head as JSON, and a picture or its pixels behind it.

import type { ImagePlan } from '../../protocol/upload/upload-plan.ts'

export type PictureOrder = { readonly id: number; readonly plan: ImagePlan; readonly maxPixels: number }

export type PictureResult = {
  readonly id: number
  readonly outcome: 'ready' | 'tooLarge' | 'unreadable' | 'noPackage'
  /** What is wrong; empty where nothing is. */
  readonly text: string
}

const lengthsBytes = 8
/** A head has a plan, or an error text. */
const mostHeadBytes = 16 * 1024

/** What stands before the bytes of a frame. */
export function frameHead(head: PictureOrder | PictureResult, byteLength: number): Buffer {
  const text = Buffer.from(JSON.stringify(head))
  const lengths = Buffer.alloc(lengthsBytes)
  lengths.writeUInt32LE(text.length, 0)
  lengths.writeUInt32LE(byteLength, 4)
  return Buffer.concat([lengths, text])
}

/** Puts frames together from the pieces that a socket gives. The bytes of each have memory of their own. */
export class FrameReader<Head> {
  readonly #mostBytes: (head: Head) => number
  readonly #onFrame: (head: Head, bytes: Buffer<ArrayBuffer>) => void
  readonly #lengths = Buffer.alloc(lengthsBytes)
  #text: Buffer | null = null
  #head: Head | null = null
  #bytes: Buffer<ArrayBuffer> = Buffer.alloc(0)
  /** Of the part that is being read. */
  #filled = 0

  /** `mostBytes` is asked before memory is taken. */
  constructor(mostBytes: (head: Head) => number, onFrame: (head: Head, bytes: Buffer<ArrayBuffer>) => void) {
    this.#mostBytes = mostBytes
    this.#onFrame = onFrame
  }

  /** Throws for what is no frame. */
  push(piece: Buffer): void {
    for (let at = 0; at < piece.length;) {
      const length = piece.copy(this.#part(), this.#filled, at)
      at += length
      this.#filled += length
      // The bytes of a frame may be none.
      while (this.#filled === this.#part().length) this.#endPart()
    }
  }

  #part(): Buffer {
    return this.#head !== null ? this.#bytes : (this.#text ?? this.#lengths)
  }

  #endPart(): void {
    this.#filled = 0
    const [head, text, bytes] = [this.#head, this.#text, this.#bytes]
    if (text === null) {
      const headBytes = this.#lengths.readUInt32LE(0)
      if (headBytes === 0 || headBytes > mostHeadBytes) throw new Error(`a head of ${headBytes} bytes came`)
      this.#text = Buffer.allocUnsafe(headBytes)
    } else if (head === null) {
      this.#head = JSON.parse(text.toString()) as Head
      const [byteLength, most] = [this.#lengths.readUInt32LE(4), this.#mostBytes(this.#head)]
      if (byteLength > most) throw new Error(`${byteLength} bytes came, at most ${most} may`)
      this.#bytes = Buffer.allocUnsafeSlow(byteLength)
    } else {
      this.#text = null
      this.#head = null
      this.#onFrame(head, bytes)
    }
  }
}

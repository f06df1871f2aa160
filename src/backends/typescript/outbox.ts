// Collects the messages of a Worker. Messages of one turn of its event loop are sent together.

import type { ModelTensor } from './model-tensor.ts'
import type { FromWorker, TensorMessage, WorkerMessage } from './worker-protocol.ts'

type Post = (envelope: FromWorker, transfer: ArrayBuffer[]) => void

/** Smaller outputs are copied: a copy of 16 KiB costs less than a transfer of its memory. */
const handOverBytes = 16 * 1024

/** The outbox is sent at this many messages, also when the model never waits. */
const messageLimit = 64

export class Outbox {
  readonly #post: Post
  #messages: WorkerMessage[] = []
  #buffers: ArrayBuffer[] = []
  #isFlushPlanned = false
  readonly #kept = new WeakSet<ArrayBuffer>()

  constructor(post: Post) {
    this.#post = post
  }

  /** These buffers are never transferred: they hold inputs, which a model may send back more than once. */
  keep(buffers: readonly ArrayBuffer[]): void {
    for (const buffer of buffers) this.#kept.add(buffer)
  }

  add(message: WorkerMessage): void {
    this.#messages.push(message)
    if (this.#messages.length >= messageLimit) {
      this.flush()
    } else if (!this.#isFlushPlanned) {
      this.#isFlushPlanned = true
      // This runs after all microtasks, so that all answers of an async generator that never waits leave together.
      process.nextTick(() => this.flush())
    }
  }

  /**
   * Takes the outputs' bytes as they are now; the model may change its arrays afterwards. Small outputs and views on
   * larger memory are copied once, into one buffer. A large array with a buffer of its own is transferred.
   */
  addWithTensors(tensors: readonly ModelTensor[], message: (outputs: TensorMessage[]) => WorkerMessage): void {
    const outputs: TensorMessage[] = []
    let copiedBytes = 0
    for (const tensor of tensors) if (!this.#canHandOver(tensor.bytes)) copiedBytes += aligned(tensor.bytes.byteLength)
    const copies = copiedBytes > 0 ? Buffer.allocUnsafeSlow(copiedBytes) : null
    const copiesIndex = this.#buffers.length
    if (copies !== null) this.#buffers.push(copies.buffer)
    let copyOffset = 0
    let isHandingOver = false
    for (const { name, dataType, shape, bytes } of tensors) {
      const length = bytes.byteLength
      const head = { name, dataType, shape: [...shape], length }
      if (this.#canHandOver(bytes)) {
        isHandingOver = true
        outputs.push({ ...head, buffer: this.#bufferIndex(bytes.buffer as ArrayBuffer), offset: 0 })
      } else {
        copies?.set(bytes, copyOffset)
        outputs.push({ ...head, buffer: copiesIndex, offset: copyOffset })
        copyOffset += aligned(length)
      }
    }
    this.add(message(outputs))
    if (isHandingOver) this.flush()
  }

  flush(): void {
    this.#isFlushPlanned = false
    if (this.#messages.length === 0) return
    const messages = this.#messages
    const buffers = this.#buffers
    this.#messages = []
    this.#buffers = []
    this.#post({ messages, buffers }, buffers)
  }

  /** False for memory that is shared, kept, or larger than this output: it is copied. */
  #canHandOver(bytes: Uint8Array): boolean {
    const buffer: ArrayBufferLike = bytes.buffer
    return (
      bytes.byteLength >= handOverBytes &&
      buffer instanceof ArrayBuffer &&
      buffer.byteLength === bytes.byteLength &&
      !this.#kept.has(buffer)
    )
  }

  /** Two outputs may be the same array. */
  #bufferIndex(buffer: ArrayBuffer): number {
    const known = this.#buffers.indexOf(buffer)
    return known >= 0 ? known : this.#buffers.push(buffer) - 1
  }
}

const aligned = (length: number): number => Math.ceil(length / 8) * 8

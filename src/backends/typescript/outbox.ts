// Messages on their way out of a Worker. Those of one turn of its event loop leave together.

import type { ModelTensor } from './model-tensor.ts'
import type { FromWorker, TensorMessage, WorkerMessage } from './worker-protocol.ts'

type Post = (envelope: FromWorker, transfer: ArrayBuffer[]) => void

/** Smaller outputs are copied: a copy of 16 KiB costs less than handing over its memory. */
const handOverBytes = 16 * 1024

/** A model that sends without ever waiting does not pile up more than this. */
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

  /** This memory stays here: a request's inputs, which a model may send back more than once. */
  keep(buffers: readonly ArrayBuffer[]): void {
    for (const buffer of buffers) this.#kept.add(buffer)
  }

  add(message: WorkerMessage): void {
    this.#messages.push(message)
    if (this.#messages.length >= messageLimit) {
      this.flush()
    } else if (!this.#isFlushPlanned) {
      this.#isFlushPlanned = true
      // After all microtasks: an async generator that yields without waiting for anything fills one envelope.
      process.nextTick(() => this.flush())
    }
  }

  /**
   * Takes the outputs' bytes as they are now, whatever the model does to its arrays afterwards. Copies: small outputs
   * and views on larger memory once, into one buffer; a large array that has its memory to itself is handed over.
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

  /** Memory that is shared, that is kept, or that holds more than this output is copied. */
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

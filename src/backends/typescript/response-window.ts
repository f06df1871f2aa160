// Limits how far a decoupled model may run ahead of the client that reads its answers.

/** So many responses, or bytes of them, may be on their way. The server tells when it has passed them on. */
export const windowResponses = 32
export const windowBytes = 512 * 1024

/** The server sends `taken` once half a window is free, because a message costs more than a small answer. */
export const takenAtResponses = windowResponses / 2
export const takenAtBytes = windowBytes / 2

/** The window of one request, on the model's side. A send never fails; the window only tells when to wait. */
export class ResponseWindow {
  #count = 0
  #bytes = 0
  #isClosed = false
  #waiting: PromiseWithResolvers<void> | null = null

  get isOpen(): boolean {
    return this.#isClosed || (this.#count < windowResponses && this.#bytes < windowBytes)
  }

  sent(bytes: number): void {
    this.#count++
    this.#bytes += bytes
  }

  taken(count: number, bytes: number): void {
    this.#count -= count
    this.#bytes -= bytes
    if (this.isOpen) this.#wake()
  }

  /** Resolves when the next response may go. */
  ready(): Promise<void> {
    if (this.isOpen) return Promise.resolve()
    this.#waiting ??= Promise.withResolvers<void>()
    return this.#waiting.promise
  }

  /** The request ended or its client gave up: nobody waits here any more. */
  close(): void {
    this.#isClosed = true
    this.#wake()
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = null
    waiting?.resolve()
  }
}

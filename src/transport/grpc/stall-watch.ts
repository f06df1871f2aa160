/** The part of a stream that shows whether its client reads and sends. */
type WatchedStream = { readonly backlogBytes: number; readonly sentBytes: number; readonly receivedBytes: number }

/** A client that takes less than this in a whole time-out stands still. */
const leastTakenBytes = 1024

/** How long a stream has stood still, by looks at its counters now and then: no piece of data needs a look at the clock. */
export class StallWatch {
  #sentBytes = 0
  #receivedBytes = 0
  /** -1: nothing to wait for at the last look. */
  #unreadSinceNs = -1
  #halfSinceNs = -1

  /** How long the client has taken nothing of what waits for it. */
  unreadFor({ backlogBytes, sentBytes }: WatchedStream, nowNs: number): number {
    if (backlogBytes === 0) this.#unreadSinceNs = -1
    else if (this.#unreadSinceNs < 0 || sentBytes - this.#sentBytes >= leastTakenBytes) {
      this.#unreadSinceNs = nowNs
      this.#sentBytes = sentBytes
    } else return nowNs - this.#unreadSinceNs
    return 0
  }

  /** How long the client has sent less than so many bytes of the message that is awaited. */
  halfFor({ receivedBytes }: WatchedStream, isAwaited: boolean, leastBytes: number, nowNs: number): number {
    if (!isAwaited) this.#halfSinceNs = -1
    else if (this.#halfSinceNs < 0 || receivedBytes - this.#receivedBytes >= leastBytes) {
      this.#halfSinceNs = nowNs
      this.#receivedBytes = receivedBytes
    } else return nowNs - this.#halfSinceNs
    return 0
  }
}

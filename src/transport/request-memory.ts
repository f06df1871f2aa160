import type { ClientMemory, ConnectionMemory } from './client-memory.ts'
import type { InflatedMemory } from './inflate-queue.ts'

/** What is held for one request beside the bytes that came over the wire. All of it goes back when the request has ended. */
export class RequestMemory implements InflatedMemory {
  readonly #connection: ConnectionMemory
  #heldBytes = 0
  #inflatedBytes = 0
  /** True: nobody waits for the request any more. What is held from now on is not counted, and nothing new begins. */
  isEnded = false
  onEnd: (() => void) | null = null

  constructor(connection: ConnectionMemory) {
    this.#connection = connection
  }

  get server(): ClientMemory {
    return this.#connection.server
  }

  /** False: there is no room. */
  reserve(bytes: number): boolean {
    if (this.isEnded) return true
    if (!this.#connection.reserve(bytes)) return false
    this.#heldBytes += bytes
    return true
  }

  /** Counts a refusal, and says why. */
  refuse(bytes: number): string {
    return this.server.refuse(bytes)
  }

  /** Nobody looks at this body any more: its memory is for the next one. */
  reuse(body: Buffer): void {
    this.server.bodies.give(body)
  }

  get isInflated(): boolean {
    return this.#inflatedBytes > 0
  }

  hasRoomToInflate(bytes: number): boolean {
    return this.server.hasRoomToInflate(bytes)
  }

  /** Like `reserve`, for what a compressed body may become. */
  reserveInflated(bytes: number): boolean {
    if (!this.reserve(bytes)) return false
    if (this.isEnded) return true
    this.#inflatedBytes += bytes
    this.server.inflatedBytes += bytes
    return true
  }

  /** The body became smaller than was reserved for it. */
  shrinkInflated(bytes: number): void {
    if (this.isEnded) return
    this.#inflatedBytes -= bytes
    this.server.inflatedBytes -= bytes
    this.release(bytes)
  }

  release(bytes: number): void {
    if (this.isEnded) return
    this.#heldBytes -= bytes
    this.#connection.release(bytes)
  }

  /** Twice is fine. */
  end(): void {
    if (this.isEnded) return
    this.server.inflatedBytes -= this.#inflatedBytes
    this.release(this.#heldBytes)
    this.isEnded = true
    this.onEnd?.()
    if (this.#inflatedBytes > 0) this.server.inflations.startNext()
  }
}

import type { Socket } from 'node:net'

/** Bytes on the wire of all connections of a port. The sockets count; nothing is done per request. */
export class TrafficMeter {
  readonly #open = new Set<Socket>()
  #closedRead = 0
  #closedWritten = 0

  track(socket: Socket): void {
    this.#open.add(socket)
    socket.once('close', () => {
      this.#open.delete(socket)
      this.#closedRead += socket.bytesRead
      this.#closedWritten += socket.bytesWritten
    })
  }

  get connectionCount(): number {
    return this.#open.size
  }

  /** What came in and went out since the start. */
  totals(): { readonly bytesRead: number; readonly bytesWritten: number } {
    let bytesRead = this.#closedRead
    let bytesWritten = this.#closedWritten
    for (const socket of this.#open) {
      bytesRead += socket.bytesRead
      bytesWritten += socket.bytesWritten
    }
    return { bytesRead, bytesWritten }
  }
}

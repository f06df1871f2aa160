/** How many streams are remembered. Frames that a client sent before it knew of the end arrive soon. */
const mostStreams = 256

/** The streams that ended last. Frames may still arrive for those that the server broke off. */
export class ClosedStreams {
  /** Ids; negative where the server broke the stream off. */
  readonly #ids = new Int32Array(mostStreams)
  #next = 0

  add(streamId: number, wasBrokenOff: boolean): void {
    this.#ids[this.#next] = wasBrokenOff ? -streamId : streamId
    this.#next = (this.#next + 1) % mostStreams
  }

  reasonOf(streamId: number): 'ended' | 'broken off' | null {
    if (this.#ids.includes(-streamId)) return 'broken off'
    return this.#ids.includes(streamId) ? 'ended' : null
  }
}

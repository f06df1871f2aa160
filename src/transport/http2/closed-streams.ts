/** How many are remembered: what a client sent before it heard of the end arrives soon after. */
const mostStreams = 256

/** The streams that ended last, and whether it was we who broke them off: frames of those are still on their way. */
export class ClosedStreams {
  /** Ids; negative where we broke it off. */
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

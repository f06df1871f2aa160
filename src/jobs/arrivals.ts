import type { Clock } from '../base/clock.ts'

/** One look waits so long for messages: a job that is stopped ends within this time. */
const waitNs = 500e6

/** Messages that a queue gave out and that wait for their turn. */
export class Arrivals<Message> {
  readonly #clock: Clock
  readonly #waiting: Message[] = []
  #wake: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get count(): number {
    return this.#waiting.length
  }

  push(message: Message): void {
    this.#waiting.push(message)
    this.wake()
  }

  /** Ends a wait, because there is a message or because there will be none. */
  wake(): void {
    this.#wake?.()
  }

  /** At most so many; waits for the first one. Empty: none came. */
  async take(most: number): Promise<Message[]> {
    if (this.#waiting.length === 0) {
      await new Promise<void>((resolve) => {
        const cancel = this.#clock.after(waitNs, resolve)
        this.#wake = () => (cancel(), resolve())
      })
      this.#wake = null
    }
    return this.#waiting.splice(0, most)
  }
}

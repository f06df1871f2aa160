// One line on a terminal that shows the progress of the measurement, rewritten in place.

export class ProgressLine {
  readonly #write: (text: string) => void
  readonly #columns: () => number
  #isShown = false
  #lastDone = 0
  #lastMs = 0

  constructor(write: (text: string) => void, columns: () => number) {
    this.#write = write
    this.#columns = columns
  }

  show(title: string, window: number, done: number, failed: number, nowMs: number): void {
    const seconds = (nowMs - this.#lastMs) / 1000
    const rate = this.#lastMs === 0 || done < this.#lastDone ? 0 : (done - this.#lastDone) / seconds
    this.#lastDone = done
    this.#lastMs = nowMs
    const failures = failed === 0 ? '' : `, ${failed} failed`
    const text = `${title}, window ${window}: ${done} requests, ${Math.round(rate)}/s${failures}`
    this.#write(`\r\x1b[2K${text.slice(0, Math.max(20, this.#columns() - 1))}`)
    this.#isShown = true
  }

  /** Call it before other output. */
  clear(): void {
    if (this.#isShown) this.#write('\r\x1b[2K')
    this.#isShown = false
    this.#lastMs = 0
  }
}

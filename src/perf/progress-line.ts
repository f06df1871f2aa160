// The progress of the measurement: on a terminal one line that is rewritten in place, elsewhere a line every few seconds.

/** Between two lines of a log. */
const logEveryMs = 10_000

export class ProgressLine {
  readonly #write: (text: string) => void
  /** Null: the output is no terminal. */
  readonly #columns: (() => number) | null
  #isShown = false
  #lastDone = 0
  #lastMs = 0
  #title = ''

  constructor(write: (text: string) => void, columns: (() => number) | null) {
    this.#write = write
    this.#columns = columns
  }

  show(title: string, window: number, done: number, failed: number, nowMs: number): void {
    if (this.#columns === null && this.#isTooSoon(title, done, nowMs)) return
    const seconds = (nowMs - this.#lastMs) / 1000
    const rate = this.#lastMs === 0 || done < this.#lastDone ? 0 : (done - this.#lastDone) / seconds
    this.#lastDone = done
    this.#lastMs = nowMs
    const failures = failed === 0 ? '' : `, ${failed} failed`
    const text = `${title}, window ${window}: ${done} requests, ${Math.round(rate)}/s${failures}`
    if (this.#columns === null) this.#write(`${text}\n`)
    else this.#write(`\r\x1b[2K${text.slice(0, Math.max(20, this.#columns() - 1))}`)
    this.#isShown = this.#columns !== null
  }

  /** The first line of a load comes after a pause too: a short measurement needs none. */
  #isTooSoon(title: string, done: number, nowMs: number): boolean {
    if (title !== this.#title) {
      this.#title = title
      this.#lastDone = done
      this.#lastMs = nowMs
    }
    return nowMs - this.#lastMs < logEveryMs
  }

  /** Call it before other output. */
  clear(): void {
    if (this.#isShown) this.#write('\r\x1b[2K')
    this.#isShown = false
    if (this.#columns !== null) this.#lastMs = 0
  }
}

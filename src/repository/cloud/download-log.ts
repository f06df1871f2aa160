import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'

const firstLineNs = 2e9
const nextLineNs = 5e9

/** Says how far a download is once it takes longer than two seconds, and then every five. */
export class DownloadLog {
  readonly #clock: Clock
  readonly #log: Log
  readonly #what: string
  readonly #totalFiles: number
  readonly #totalBytes: number
  readonly #startedNs: number
  #files = 0
  #bytes = 0
  #hasSpoken = false
  #cancel: Cancel

  constructor(
    dependencies: { readonly clock: Clock; readonly log: Log },
    what: string,
    files: readonly { readonly sizeBytes: number }[],
  ) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('download-log.ts')
    this.#what = what
    this.#totalFiles = files.length
    this.#totalBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0)
    this.#startedNs = this.#clock.nowNs()
    this.#cancel = this.#clock.after(firstLineNs, () => this.#speak())
  }

  add(bytes: number): void {
    this.#bytes += bytes
  }

  finishFile(): void {
    this.#files++
  }

  close(): void {
    this.#cancel()
    if (this.#hasSpoken) this.#write()
  }

  #speak(): void {
    this.#hasSpoken = true
    this.#write()
    this.#cancel = this.#clock.after(nextLineNs, () => this.#speak())
  }

  #write(): void {
    const seconds = (this.#clock.nowNs() - this.#startedNs) / 1e9
    const [done, total] = [shownBytes(this.#bytes), shownBytes(this.#totalBytes)]
    const speed = shownBytes(this.#bytes / Math.max(seconds, 0.001))
    const percent = this.#totalBytes === 0 ? 100 : Math.floor((100 * this.#bytes) / this.#totalBytes)
    this.#log.info(
      `downloading ${this.#what}: ${this.#files} of ${this.#totalFiles} files, ${done} of ${total} (${percent} %), ${speed}/s`,
    )
  }
}

function shownBytes(bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB']
  let value = bytes
  let unit = 0
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000
    unit++
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit] ?? ''}`
}

import { mkdir, readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { replaceFile } from '../base/replace-file.ts'
import { messageOf } from '../base/server-error.ts'

const saveEveryNs = 10e9
/** A text that is longer is saved more rarely: to make and write it takes time. */
const shortTextLength = 256 * 1024
const saveLongEveryNs = 60e9
const largestFileBytes = 64 * 1024 * 1024

type KeptText = {
  /** For the log: `the quotas`. */
  readonly what: string
  readonly path: string
  /** The text to keep; '' for nothing. */
  readonly text: () => string | Promise<string>
  /** Takes a text of an earlier server over. May throw: then the file is not used. */
  readonly take: (text: string) => void
}

/** A text in the state folder that follows what the server counts, so that a restart does not lose it, nor does a crash. */
export class KeptFile {
  readonly #clock: Clock
  readonly #log: Log
  readonly #kept: KeptText
  #saved = ''
  #cancel: Cancel | null = null
  #isClosed = false

  constructor(dependencies: { readonly clock: Clock; readonly log: Log }, kept: KeptText) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('kept-file.ts')
    this.#kept = kept
  }

  /** A file that cannot be read is logged, and counting begins anew. */
  async open(): Promise<void> {
    const { what, path, take } = this.#kept
    try {
      const { size } = await stat(path)
      if (size > largestFileBytes) throw new Error(`it has ${size} bytes, expected at most ${largestFileBytes}`)
      take(await readFile(path, 'utf8'))
    } catch (reason) {
      if ((reason as NodeJS.ErrnoException).code !== 'ENOENT') {
        this.#log.warning(`${what} in '${path}' cannot be read and begin anew: ${messageOf(reason)}`)
      }
    }
    this.#wait()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    await this.#save()
  }

  #wait(): void {
    if (this.#isClosed) return
    const everyNs = this.#saved.length > shortTextLength ? saveLongEveryNs : saveEveryNs
    this.#cancel = this.#clock.after(everyNs, () => void this.#save().finally(() => this.#wait()))
  }

  async #save(): Promise<void> {
    const { what, path } = this.#kept
    const text = await this.#kept.text()
    if (text === this.#saved) return
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      await replaceFile(path, text)
      this.#saved = text
    } catch (reason) {
      this.#log.warning(`${what} cannot be kept in '${path}': ${messageOf(reason)}`)
    }
  }
}

// Which files jobs under way read and write: a file that one of them uses is written by no other. Paths are real ones.

import { ServerError } from '../base/server-error.ts'

export class FileClaims {
  readonly #reads = new Set<readonly string[]>()
  readonly #writes = new Set<string>()

  /** Gives the end of the claim. */
  read(files: readonly string[]): () => void {
    this.#reads.add(files)
    return () => void this.#reads.delete(files)
  }

  /** Gives the end of the claim. Throws UNAVAILABLE. */
  write(file: string): () => void {
    const use = this.#writes.has(file)
      ? 'writes'
      : [...this.#reads].some((files) => files.includes(file))
        ? 'reads'
        : ''
    if (use !== '') throw new ServerError('UNAVAILABLE', `a job that is under way ${use} the file of the output: name another file, or resume this job when the other one is over`) // prettier-ignore
    this.#writes.add(file)
    return () => void this.#writes.delete(file)
  }
}

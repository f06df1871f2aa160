import { mkdir, open, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { joinInside, realPathInside } from '../base/safe-path.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { fitsPattern, requireFile } from './file-input.ts'
import type { JobOutput } from './job-channel.ts'

/** Answers in a file, in the order of the input. What lies behind the last checkpoint is cut off when a job goes on. */
export class FileOutput implements JobOutput {
  readonly #handle: FileHandle
  readonly #mostBytes: number
  readonly #release: () => void
  writtenBytes: number

  private constructor(handle: FileHandle, writtenBytes: number, mostBytes: number, release: () => void) {
    this.#handle = handle
    this.#release = release
    this.#mostBytes = mostBytes
    this.writtenBytes = writtenBytes
  }

  /** `release` is called when the file is closed. */
  static async open(
    file: string,
    keptBytes: number,
    mostBytes = Infinity,
    release: () => void = nothing,
  ): Promise<FileOutput> {
    const handle = await open(file, keptBytes === 0 ? 'w' : 'r+', 0o600)
    try {
      const { size } = await handle.stat()
      if (size < keptBytes) throw new ServerError('UNAVAILABLE', `'${path.basename(file)}' has ${size} bytes, but ${keptBytes} were written to it: somebody changed it`) // prettier-ignore
      await handle.truncate(keptBytes)
      return new FileOutput(handle, keptBytes, mostBytes, release)
    } catch (reason) {
      await handle.close()
      throw reason
    }
  }

  /** Behind the last whole line. A queue has no checkpoint: the answers of messages that were marked stay. */
  static async openAtEnd(file: string, mostBytes = Infinity, release: () => void = nothing): Promise<FileOutput> {
    const handle = await open(file, 'a+', 0o600)
    try {
      let { size: end } = await handle.stat()
      const piece = Buffer.alloc(64 * 1024)
      while (end > 0) {
        const from = Math.max(0, end - piece.length)
        const { bytesRead } = await handle.read(piece, 0, end - from, from)
        const lineEnd = piece.subarray(0, bytesRead).lastIndexOf(0x0a)
        end = lineEnd < 0 ? from : from + lineEnd + 1
        if (lineEnd >= 0) break
      }
      await handle.close()
      return await FileOutput.open(file, end, mostBytes, release)
    } catch (reason) {
      await handle.close().catch(() => undefined)
      throw reason
    }
  }

  async write(lines: readonly string[]): Promise<void> {
    const bytes = Buffer.from(lines.join(''))
    if (this.writtenBytes + bytes.length > this.#mostBytes) {
      throw new ServerError('UNAVAILABLE', `the answers have more than ${this.#mostBytes} bytes, which is the most that the server keeps: name a file or a queue as output`) // prettier-ignore
    }
    let done = 0
    while (done < bytes.length) {
      const { bytesWritten } = await this.#handle.write(bytes, done, bytes.length - done, this.writtenBytes + done)
      done += bytesWritten
    }
    this.writtenBytes += bytes.length
  }

  /** Called before a checkpoint: the checkpoint must not know of bytes that a crash of the machine takes away. */
  async sync(): Promise<void> {
    await this.#handle.datasync()
  }

  async close(): Promise<void> {
    try {
      await this.#handle.close()
    } finally {
      this.#release()
    }
  }
}

const nothing = (): void => undefined

/** Where a new file may be written below the root. Throws INVALID_ARG. */
export async function outputInside(root: string, relative: string): Promise<string> {
  const file = joinInside(root, relative)
  const folder = path.dirname(relative)
  // A link in the path could lead out of the root: the folders that are there are looked at before one is made in them.
  for (let at = folder; (await realPathInside(root, at)) === null && at !== '.';) at = path.dirname(at)
  await mkdir(joinInside(root, folder), { recursive: true }).catch((reason: unknown) => {
    throw new ServerError('INVALID_ARG', `'${relative.slice(0, 200)}' has no folder, and none can be made: ${codeOf(reason)}`) // prettier-ignore
  })
  const real = await realPathInside(root, folder)
  if (real === null) throw new ServerError('INVALID_ARG', `'${relative}' has no folder`)
  const existing = await realPathInside(root, relative)
  if (existing !== null) await requireFile(existing, relative)
  return existing ?? path.join(real, path.basename(file))
}

/**
 * Refuses an output that the job reads itself: the lines would be gone before they are read, or the job would read its own answers. Also a
 * file that is not there yet, because the next run would read it. `files` and `file` are real paths. Throws INVALID_ARG.
 */
export function refuseOwnInput(pattern: string, files: readonly string[], output: string, file: string): void {
  const isSameFolder = path.posix.normalize(path.dirname(pattern)) === path.posix.normalize(path.dirname(output))
  const isNamed = pattern !== '' && isSameFolder && fitsPattern(path.basename(output), pattern)
  if (isNamed || files.includes(file)) throw new ServerError('INVALID_ARG', `the output '${output}' is one of the files that the job reads: name another file`) // prettier-ignore
}

const codeOf = (reason: unknown): string => (reason as NodeJS.ErrnoException).code ?? messageOf(reason)

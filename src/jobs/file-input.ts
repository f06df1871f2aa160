// Lines of files, one after the other, from a position on.

import { opendir, stat } from 'node:fs/promises'
import path from 'node:path'
import { joinInside, realPathInside } from '../base/safe-path.ts'
import { ServerError } from '../base/server-error.ts'
import type { JobInput, JobItem, JobPosition } from './job-channel.ts'
import { isBlankLine, longestLineBytes } from './job-line.ts'
import type { PieceReader } from './piece-reader.ts'

const mostInputFiles = 100_000
/** Programs of Windows write it before the first line. */
const byteOrderMark = Buffer.from('\ufeff')

/** The files that a pattern names, below the root, in the order of their names. Throws INVALID_ARG and NOT_FOUND. */
export async function filesOf(root: string, pattern: string): Promise<string[]> {
  const folder = path.dirname(pattern)
  const name = path.basename(pattern)
  if (folder.includes('*') || name.split('*').length > 2) {
    throw new ServerError('INVALID_ARG', `'${pattern}' must have at most one *, in the name of the file`)
  }
  if (!name.includes('*')) return [await fileInside(root, pattern)]
  joinInside(root, folder)
  const real = await realPathInside(root, folder)
  const names: string[] = []
  const others: string[] = []
  if (real !== null) {
    // A piece at a time: a folder may have any number of files, and the disk is asked again only about those that are links.
    for await (const entry of await opendir(real, { bufferSize: 1024 })) {
      if (!fitsPattern(entry.name, pattern)) continue
      if (names.push(entry.name) > mostInputFiles) break
      if (!entry.isFile()) others.push(entry.name)
    }
  }
  const fitting = fittingNames(names, pattern)
  const linked = new Map<string, string>()
  for (const one of others) linked.set(one, await fileInside(root, path.join(folder, one)))
  return fitting.map((one) => linked.get(one) ?? `${real ?? ''}/${one}`)
}

/** Whether a name fits the last part of a pattern with at most one `*`. */
export function fitsPattern(name: string, pattern: string): boolean {
  const [start = '', end] = path.basename(pattern).split('*')
  if (end === undefined) return name === start
  return name.length >= start.length + end.length && name.startsWith(start) && name.endsWith(end)
}

/** Those of the names that fit a pattern with one `*`. Throws NOT_FOUND for none, INVALID_ARG for too many. */
export function fittingNames(
  names: readonly string[],
  pattern: string,
  where = ' in the folder of --jobs-dir',
): string[] {
  const fitting = names.filter((one) => fitsPattern(one, pattern))
  if (fitting.length === 0) throw new ServerError('NOT_FOUND', `there is no file '${pattern}'${where}`) // prettier-ignore
  if (fitting.length > mostInputFiles) throw new ServerError('INVALID_ARG', `'${pattern}' names more than ${mostInputFiles} files, which is the most that can be read by one job`) // prettier-ignore
  return fitting.sort()
}

async function fileInside(root: string, relative: string): Promise<string> {
  const real = await realPathInside(root, relative)
  if (real === null) throw new ServerError('NOT_FOUND', `there is no file '${relative}' in the folder of --jobs-dir`)
  await requireFile(real, relative)
  return real
}

/** A folder has no lines, and to open a pipe would wait for whoever writes to it. */
export async function requireFile(real: string, shown: string): Promise<void> {
  if (!(await stat(real)).isFile()) throw new ServerError('INVALID_ARG', `'${shown}' is no file: name a file, or files as in/*.jsonl`) // prettier-ignore
}

type Mark = { readonly file: number; readonly end: number; readonly line: number }

export class FileInput implements JobInput {
  readonly #pieces: PieceReader
  readonly #release: () => void
  #file: number
  #offset: number
  #line: number
  #rest: Buffer = Buffer.alloc(0)
  #begun: Buffer[] = []
  #begunBytes = 0
  #isFileOver = false
  #done: Mark

  /** `release` is called when the files are closed. */
  constructor(pieces: PieceReader, from: JobPosition | null, release: () => void = () => undefined) {
    this.#pieces = pieces
    this.#release = release
    this.#file = from?.file ?? 0
    this.#offset = from?.offset ?? 0
    this.#line = from?.line ?? 0
    this.#done = { file: this.#file, end: this.#offset, line: this.#line }
  }

  async next(most: number): Promise<JobItem[] | null> {
    const items: JobItem[] = []
    while (items.length < most) {
      const end = this.#rest.indexOf(0x0a)
      if (end >= 0) this.#take(items, this.#rest.subarray(0, end), end + 1)
      else if (!this.#isFileOver && this.#rest.length > 0) this.#begin()
      else if (this.#isFileOver && this.#rest.length > 0) this.#take(items, this.#rest, this.#rest.length)
      else if (this.#isFileOver && !this.#nextFile()) return items.length > 0 ? items : null
      else if (!this.#isFileOver) {
        // What was read is handed out before more is read: the wait for a disk is not a wait for a line that is there.
        if (items.length > 0) return items
        await this.#read()
      }
    }
    return items
  }

  /** The beginning of a line waits for the rest of the line. */
  #begin(): void {
    this.#begun = [this.#rest]
    this.#begunBytes = this.#rest.length
    this.#rest = Buffer.alloc(0)
  }

  #take(items: JobItem[], whole: Buffer, bytes: number): void {
    const line = this.#offset === 0 && whole.subarray(0, 3).equals(byteOrderMark) ? whole.subarray(3) : whole
    this.#rest = this.#rest.subarray(bytes)
    this.#offset += bytes
    this.#line++
    if (isBlankLine(line)) return
    const mark: Mark = { file: this.#file, end: this.#offset, line: this.#line }
    const at = `${this.#pieces.nameOf(this.#file)}:${this.#line}`
    items.push({ line: Buffer.from(line), at, earlierAttempts: 0, mark })
  }

  async #read(): Promise<void> {
    const at = this.#offset + this.#rest.length + this.#begunBytes
    const piece = await this.#pieces.read(this.#file, at)
    const bytesRead = piece.length
    this.#isFileOver = bytesRead === 0
    const end = piece.indexOf(0x0a)
    if (this.#begunBytes + (end < 0 ? bytesRead : end) > longestLineBytes) {
      throw new ServerError('INVALID_ARG', `line ${this.#line + 1} of '${this.#pieces.nameOf(this.#file)}' has more than ${longestLineBytes} bytes, which is the most`) // prettier-ignore
    }
    this.#begun.push(piece)
    this.#begunBytes += bytesRead
    // The pieces of a long line are joined once, when its end is there.
    if (end < 0 && !this.#isFileOver) return
    this.#rest = Buffer.concat(this.#begun)
    this.#begun = []
    this.#begunBytes = 0
  }

  #nextFile(): boolean {
    if (this.#file + 1 >= this.#pieces.count) return false
    this.#file++
    this.#offset = this.#line = 0
    this.#rest = Buffer.alloc(0)
    this.#isFileOver = false
    return true
  }

  done(items: readonly JobItem[]): Promise<void> {
    const last = items.at(-1)
    if (last !== undefined) this.#done = last.mark as Mark
    return Promise.resolve()
  }

  putAside(): Promise<boolean> {
    return Promise.resolve(false)
  }

  /** The lines of a file are not counted before they are read. */
  left(): Promise<null> {
    return Promise.resolve(null)
  }

  position(): Omit<JobPosition, 'outputBytes'> {
    return { file: this.#done.file, offset: this.#done.end, line: this.#done.line }
  }

  close(): Promise<void> {
    this.#release()
    return this.#pieces.close()
  }
}

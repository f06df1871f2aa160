// Knows files by their bytes, not by their time stamps: a file that was touched, or copied again with the same bytes, keeps
// its identity. The bytes are read only when the file's stat has changed.

import { createHash } from 'node:crypto'
import { open, stat, type FileHandle } from 'node:fs/promises'

/** What the file system says about a file. Every write changes at least the last field, and no program can set it back. */
type FileStat = {
  readonly dev: number
  readonly ino: number
  readonly size: number
  readonly mtimeMs: number
  readonly ctimeMs: number
}

type KnownFile = {
  statKey: string
  /** Stands for the content: equal as long as the bytes are equal. */
  contentId: string
  /** Null until the bytes were read. */
  hash: string | null
}

/** A file up to this size is read at once; a larger file in the background, so that no start waits for it. */
const readAtOnceBytes = 1024 * 1024
const chunkBytes = 256 * 1024
/** Removed files leave their entries behind. Beyond this many entries the index is emptied and fills again. */
const maxFiles = 200_000

const statKeyOf = ({ dev, ino, size, mtimeMs, ctimeMs }: FileStat): string =>
  [dev, ino, size, mtimeMs, ctimeMs].join(':')

export class ContentIndex {
  readonly #known = new Map<string, KnownFile>()
  readonly #unread: { readonly path: string; readonly statKey: string }[] = []
  #reading: Promise<void> | null = null
  #isClosed = false

  /**
   * Returns what stands for the file's content. With `isExact` a file whose stat has changed is read, whatever its size;
   * without, a large file counts as changed, because it may still be growing.
   */
  async identify(path: string, found: FileStat, isExact: boolean): Promise<string> {
    const statKey = statKeyOf(found)
    const known = this.#known.get(path)
    if (known?.statKey === statKey) return known.contentId
    if (found.size > readAtOnceBytes && (known === undefined || !isExact)) {
      if (known === undefined) this.#readLater(path, statKey)
      return `stat ${statKey}`
    }
    const hash = await this.#hash(path, found.size)
    // The file was removed or became unreadable after the listing: the load will say why.
    if (hash === null) return `stat ${statKey}`
    const contentId = known !== undefined && known.hash === hash ? known.contentId : hash
    this.#remember(path, { statKey, contentId, hash })
    return contentId
  }

  /** SHA-256 of the file's bytes. The file is read only when the hash is not known; null when it cannot be read. */
  async hash(path: string): Promise<string | null> {
    // A file that waits to be read is not read twice.
    for (let attempt = 0; attempt < 2; attempt++) {
      const found = await stat(path).catch(() => null)
      if (found === null || !found.isFile() || this.#isClosed) return null
      const statKey = statKeyOf(found)
      const known = this.#known.get(path)
      if (known?.statKey === statKey && known.hash !== null) return known.hash
      if (known?.statKey === statKey && this.#reading !== null && attempt === 0) {
        await this.#reading
        continue
      }
      const hash = await this.#hash(path, found.size)
      if (hash === null) return null
      const isKept = known !== undefined && (known.statKey === statKey || known.hash === hash)
      const contentId = isKept ? known.contentId : hash
      this.#remember(path, { statKey, contentId, hash })
      return hash
    }
    return null
  }

  /** SHA-256 of content that was identified before; null when the file has changed since. */
  async hashOf(path: string, contentId: string): Promise<string | null> {
    if (/^[0-9a-f]{64}$/.test(contentId)) return contentId
    const hash = await this.hash(path)
    return this.#known.get(path)?.contentId === contentId ? hash : null
  }

  /** Resolves when nothing is left to read in the background. */
  async settled(): Promise<void> {
    await this.#reading
  }

  close(): void {
    this.#isClosed = true
    this.#unread.length = 0
  }

  #remember(path: string, file: KnownFile): void {
    if (this.#known.size >= maxFiles) this.#known.clear()
    this.#known.set(path, file)
  }

  #readLater(path: string, statKey: string): void {
    this.#remember(path, { statKey, contentId: `stat ${statKey}`, hash: null })
    this.#unread.push({ path, statKey })
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = null
    })
  }

  async #readAll(): Promise<void> {
    for (let next = this.#unread.shift(); next !== undefined; next = this.#unread.shift()) {
      const { path, statKey } = next
      const hash = await this.#hash(path)
      const known = this.#known.get(path)
      if (known?.statKey === statKey) known.hash = hash
    }
  }

  /** `sizeBytes`: how much is expected, so that small files take little memory. */
  async #hash(path: string, sizeBytes = chunkBytes): Promise<string | null> {
    let file: FileHandle | null = null
    try {
      file = await open(path, 'r')
      const hash = createHash('sha256')
      const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, sizeBytes + 1))
      for (;;) {
        const { bytesRead } = await file.read(chunk, 0, chunk.length)
        if (bytesRead === 0) return hash.digest('hex')
        if (this.#isClosed) return null
        hash.update(chunk.subarray(0, bytesRead))
      }
    } catch {
      return null
    } finally {
      await file?.close().catch(() => undefined)
    }
  }
}

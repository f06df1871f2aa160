// Files from elsewhere, kept on disk by the hash of their content. Several servers may share the folder: everything is
// written under a name of the writer's own and renamed into place, so what is there is whole.
//
//   blobs/<2>/<sha256>      the content; a file in use has a second (hard) link in some server's view
//   sources/<2>/<sha256>    which content an address with a certain tag has; touched when it is used
//   partial/<sha256>.<id>   a download under way; `kept` in place of the lease when it was given up
//   leases/<id>/            what belongs to one running server: its views

import { createHash, randomBytes } from 'node:crypto'
import { chmod, copyFile, link, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { CacheLease } from './cache-lease.ts'

export type CachedBlob = { readonly sha256: string; readonly sizeBytes: number }

/** Downloads that were given up are resumed within a day, or not at all. */
const partialAgeMs = 24 * 3600_000

export class BlobCache {
  readonly directory: string
  readonly lease: CacheLease
  readonly #limitBytes: number
  readonly #log: Log

  private constructor(log: Log, directory: string, limitBytes: number, lease: CacheLease) {
    this.directory = directory
    this.lease = lease
    this.#limitBytes = limitBytes
    this.#log = log.from('blob-cache.ts')
  }

  static async open(log: Log, directory: string, limitBytes: number): Promise<BlobCache> {
    try {
      for (const folder of ['blobs', 'sources', 'partial', 'leases']) {
        await mkdir(path.join(directory, folder), { recursive: true })
      }
      const lease = await CacheLease.take(path.join(directory, 'leases'))
      const cache = new BlobCache(log, directory, limitBytes, lease)
      await cache.#sweepPartials()
      return cache
    } catch (reason) {
      throw ServerError.from(
        reason,
        `the model cache '${directory}' cannot be used (--model-cache-dir names another): `,
      )
    }
  }

  /** The content that a source had when it was last fetched, if it is still here and untouched. */
  async find(source: string): Promise<CachedBlob | null> {
    const record = this.#sourceFile(source)
    let blob: CachedBlob
    try {
      blob = JSON.parse(await readFile(record, 'utf8')) as CachedBlob
    } catch {
      return null
    }
    if (!/^[0-9a-f]{64}$/.test(blob.sha256) || !(await this.#isWhole(blob))) return null
    await utimes(record, new Date(), new Date()).catch(() => undefined)
    return blob
  }

  /** Takes a finished file over. It must lie in the cache's folder, so that it can be renamed into place. */
  async add(source: string, file: string, blob: CachedBlob): Promise<void> {
    await this.#place(file, blob)
    await this.#writeRecord(this.#sourceFile(source), blob)
  }

  /** Forgets a source and its content, if nothing else uses it. */
  async remove(source: string): Promise<void> {
    const blob = await this.find(source)
    await rm(this.#sourceFile(source), { force: true })
    if (blob === null) return
    const found = await stat(this.fileOf(blob.sha256)).catch(() => null)
    if (found?.nlink === 1) await rm(this.fileOf(blob.sha256), { force: true })
  }

  /** Some lines of JSON about a source: what lies in an archive. */
  async findNotes(source: string): Promise<unknown> {
    const blob = await this.find(source)
    if (blob === null) return null
    return JSON.parse(await readFile(this.fileOf(blob.sha256), 'utf8')) as unknown
  }

  async addNotes(source: string, notes: unknown): Promise<void> {
    const text = Buffer.from(JSON.stringify(notes))
    const file = this.temporaryFile()
    await writeFile(file, text)
    await this.add(source, file, { sha256: createHash('sha256').update(text).digest('hex'), sizeBytes: text.length })
  }

  /** A name for a file that is being written; what remains of it goes with the lease. */
  temporaryFile(): string {
    return path.join(this.lease.directory, `new-${randomBytes(8).toString('hex')}`)
  }

  /** Makes `target` the content. From now on it is in use and not evicted, until `target` is removed. */
  async linkTo(sha256: string, target: string): Promise<void> {
    const file = this.fileOf(sha256)
    try {
      await link(file, target)
    } catch (reason) {
      const { code } = reason as NodeJS.ErrnoException
      // Some network disks have no hard links.
      if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EMLINK' && code !== 'ENOSYS') throw reason
      await copyFile(file, target)
      const { atime, mtime } = await stat(file)
      await utimes(target, atime, mtime)
    }
  }

  /** The file to download a source into: what a download that ended early has left, or a new one. */
  async adoptPartial(source: string): Promise<string> {
    const name = keyOf(source)
    const folder = path.join(this.directory, 'partial')
    const own = path.join(folder, `${name}.${this.lease.id}`)
    for (const entry of await readdir(folder)) {
      const holder = entry.startsWith(`${name}.`) ? entry.slice(name.length + 1) : this.lease.id
      if (holder === this.lease.id || (holder !== 'kept' && (await this.lease.isAlive(holder)))) continue
      // Of two servers that want it one gets it; the other begins anew.
      const isMine = await rename(path.join(folder, entry), own).then(
        () => true,
        () => false,
      )
      if (isMine) break
    }
    return own
  }

  /** Leaves what was downloaded so far for the next attempt, perhaps of another server. */
  async keepPartial(source: string, file: string): Promise<void> {
    await rename(file, path.join(this.directory, 'partial', `${keyOf(source)}.kept`)).catch(() => undefined)
  }

  /** Removes the least recently used files that no server uses until what is left fits. Never fails: it is housekeeping. */
  async evict(): Promise<void> {
    try {
      await this.#evict()
    } catch (reason) {
      this.#log.warning('the model cache could not be tidied', { folder: this.directory, reason: messageOf(reason) })
    }
  }

  async #evict(): Promise<void> {
    const blobs = await this.#allBlobs()
    let totalBytes = blobs.reduce((sum, blob) => sum + blob.sizeBytes, 0)
    if (totalBytes <= this.#limitBytes) return
    const { lastUseMs, records } = await this.#uses()
    const unused = blobs.filter(({ links }) => links === 1)
    unused.sort((a, b) => (lastUseMs.get(a.sha256) ?? 0) - (lastUseMs.get(b.sha256) ?? 0))
    let evicted = 0
    for (const { sha256, sizeBytes } of unused) {
      if (totalBytes <= this.#limitBytes) break
      await rm(this.fileOf(sha256), { force: true })
      for (const record of records.get(sha256) ?? []) await rm(record, { force: true })
      totalBytes -= sizeBytes
      evicted++
    }
    if (evicted > 0) this.#log.verbose('files removed from the model cache', { files: evicted, bytesLeft: totalBytes })
  }

  async close(): Promise<void> {
    await this.lease.close()
    await this.evict()
  }

  async #place(file: string, blob: CachedBlob): Promise<void> {
    const target = this.fileOf(blob.sha256)
    if (await this.#isWhole(blob)) {
      await rm(file, { force: true })
      return
    }
    await mkdir(path.dirname(target), { recursive: true })
    await chmod(file, 0o444)
    const made = madeAt(blob.sha256)
    await utimes(file, made, made)
    await rename(file, target)
  }

  async #writeRecord(record: string, blob: CachedBlob): Promise<void> {
    const file = this.temporaryFile()
    await writeFile(file, JSON.stringify(blob))
    await mkdir(path.dirname(record), { recursive: true })
    await rename(file, record)
  }

  /** There, of the right size, and not written to since it was made. */
  async #isWhole({ sha256, sizeBytes }: CachedBlob): Promise<boolean> {
    const found = await stat(this.fileOf(sha256)).catch(() => null)
    return found !== null && found.size === sizeBytes && found.mtimeMs === madeAt(sha256).getTime()
  }

  async #allBlobs(): Promise<{ sha256: string; sizeBytes: number; links: number }[]> {
    const blobs = []
    for (const sha256 of await namesBelow(path.join(this.directory, 'blobs'))) {
      const found = await stat(this.fileOf(sha256)).catch(() => null)
      if (found !== null) blobs.push({ sha256, sizeBytes: found.size, links: found.nlink })
    }
    return blobs
  }

  async #uses(): Promise<{ lastUseMs: Map<string, number>; records: Map<string, string[]> }> {
    const lastUseMs = new Map<string, number>()
    const records = new Map<string, string[]>()
    for (const name of await namesBelow(path.join(this.directory, 'sources'))) {
      const record = path.join(this.directory, 'sources', name.slice(0, 2), name)
      try {
        const { sha256 } = JSON.parse(await readFile(record, 'utf8')) as CachedBlob
        const { mtimeMs } = await stat(record)
        lastUseMs.set(sha256, Math.max(mtimeMs, lastUseMs.get(sha256) ?? 0))
        records.set(sha256, [...(records.get(sha256) ?? []), record])
      } catch {
        // Removed by another server, or unreadable and of no use.
        await rm(record, { force: true })
      }
    }
    return { lastUseMs, records }
  }

  async #sweepPartials(): Promise<void> {
    const folder = path.join(this.directory, 'partial')
    for (const entry of await readdir(folder)) {
      const found = await stat(path.join(folder, entry)).catch(() => null)
      if (found !== null && Date.now() - found.mtimeMs > partialAgeMs)
        await rm(path.join(folder, entry), { force: true })
    }
  }

  /** Where a content lies; it may be evicted unless it is linked. */
  fileOf(sha256: string): string {
    return path.join(this.directory, 'blobs', sha256.slice(0, 2), sha256)
  }

  #sourceFile(source: string): string {
    const key = keyOf(source)
    return path.join(this.directory, 'sources', key.slice(0, 2), key)
  }
}

const keyOf = (source: string): string => createHash('sha256').update(source).digest('hex')

/**
 * A file's time stamp comes from its content, some moment between 2001 and 2018: the same content looks the same on every
 * server and after every restart, and one that somebody has written to is known by its other time.
 */
const madeAt = (sha256: string): Date =>
  new Date((1_000_000_000 + (Number.parseInt(sha256.slice(0, 8), 16) >>> 3)) * 1000)

async function namesBelow(folder: string): Promise<string[]> {
  const names: string[] = []
  for (const part of await readdir(folder)) names.push(...(await readdir(path.join(folder, part)).catch(() => [])))
  return names
}

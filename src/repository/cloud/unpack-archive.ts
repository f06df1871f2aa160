// Reads a .tar or .tar.gz as a stream. Nothing in it becomes a path on this machine here: every entry is checked, and its
// bytes go to the caller under a name that leads nowhere else. Links are never made; one to a file of the same archive
// stands for that file's content.

import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { extract, type Header } from 'tar-stream'
import { ServerError } from '../../base/server-error.ts'
import { folderProblem, requireRelativePath, shownName } from './safe-name.ts'

export type ArchiveLimits = { readonly maxEntries: number; readonly maxUnpackedBytes: number }

/** Some content, by path in the archive; a folder has no hash. */
export type ArchiveFile = { readonly path: string; readonly sha256: string; readonly sizeBytes: number }

/** Takes an entry's bytes to the end and keeps them. */
type KeepEntry = (content: AsyncIterable<Uint8Array>) => Promise<{ sha256: string; sizeBytes: number }>

type Link = { readonly path: string; readonly target: string }

/** Throws INVALID_ARG for an archive that is damaged, too large, or has an entry that leads out of it. */
export async function unpackArchive(
  file: string,
  name: string,
  limits: ArchiveLimits,
  keep: KeepEntry,
): Promise<ArchiveFile[]> {
  const files = new Map<string, ArchiveFile>()
  const links: Link[] = []
  const folders = new Set<string>()
  const seen = new Set<string>()
  let unpackedBytes = 0
  let entryCount = 0
  const entries = extract()
  const source = createReadStream(file)
  const fed = (await beginsWith(file, gzipMark))
    ? pipeline(source, createGunzip(), boundedEntries(limits, name), entries)
    : pipeline(source, entries)
  // It may fail before the loop ends, which tells why. A rejection that nobody waits for would end the process.
  fed.catch(() => undefined)
  try {
    for await (const entry of entries) {
      const { header } = entry
      if (++entryCount > limits.maxEntries) throw refusedArchive(name, `it has more than ${limits.maxEntries} entries`)
      unpackedBytes += header.size ?? 0
      if (unpackedBytes > limits.maxUnpackedBytes) {
        throw refusedArchive(name, `it unpacks to more than ${limits.maxUnpackedBytes} bytes`)
      }
      const entryPath = pathOf(header, name)
      if (header.type === 'directory') {
        if (entryPath !== '.') folders.add(entryPath)
        entry.resume()
        continue
      }
      if (seen.has(entryPath)) throw refusedArchive(name, `it has two entries with the name ${shownName(entryPath)}`)
      seen.add(entryPath)
      if (header.type === 'file' || header.type === 'contiguous-file') {
        files.set(entryPath, { path: entryPath, ...(await keep(entry as AsyncIterable<Uint8Array>)) })
      } else {
        links.push({ path: entryPath, target: linkTarget(header, entryPath, name) })
        entry.resume()
      }
    }
    await fed
  } catch (reason) {
    source.destroy()
    entries.destroy()
    await fed.catch(() => undefined)
    throw unpackFailure(reason, name)
  }
  followLinks(files, links, name)
  const problem = folderProblem(new Set(files.keys()), limits.maxEntries)
  if (problem !== null) throw refusedArchive(name, problem)
  for (const folder of folders) {
    if (files.has(folder)) throw refusedArchive(name, `${shownName(folder)} is in it both as a file and as a folder`)
    files.set(folder, { path: folder, sha256: '', sizeBytes: 0 })
  }
  return [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1))
}

/** Around each entry: its head, long names, and zeros up to the next block. */
const mostBytesAroundEntry = 4096

/** Ends a stream that is longer than its entries may be: a megabyte of zeros between them packs into a kilobyte. */
function boundedEntries({ maxEntries, maxUnpackedBytes }: ArchiveLimits, name: string): Transform {
  const most = maxUnpackedBytes + (maxEntries + 1) * mostBytesAroundEntry
  return atMost(most, () => refusedArchive(name, `it unpacks to more than ${most} bytes, heads included`))
}

/** Ends a stream that brings more bytes. */
export function atMost(bytes: number, refusal: () => ServerError): Transform {
  let seen = 0
  return new Transform({
    transform(chunk: Buffer, _, done) {
      seen += chunk.length
      done(seen > bytes ? refusal() : null, chunk)
    },
  })
}

const gzipMark = [0x1f, 0x8b]

export async function beginsWith(file: string, mark: readonly number[]): Promise<boolean> {
  const handle = await open(file, 'r')
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(mark.length), 0, mark.length, 0)
    return bytesRead === mark.length && buffer.equals(Buffer.from(mark))
  } finally {
    await handle.close()
  }
}

/** `tar` itself writes `./` before names and `/` after those of folders; nothing else is forgiven. */
function pathOf(header: Header, name: string): string {
  const isFolder = header.type === 'directory'
  if (isFolder && /^\.?\/?$/.test(header.name)) return '.'
  const plain = header.name.replace(/^\.\//, '')
  return requireRelativePath(isFolder ? plain.replace(/\/$/, '') : plain, `an entry of ${name}`)
}

function linkTarget(header: Header, entryPath: string, name: string): string {
  const { type, linkname } = header
  if (type !== 'symlink' && type !== 'link') {
    throw refusedArchive(name, `${shownName(entryPath)} is no file, folder or link but a ${type ?? 'thing unknown'}`)
  }
  const target = linkname ?? ''
  // A symbolic link counts from its own folder, a hard link from the archive's root.
  const joined = path.posix.normalize(
    type === 'symlink' ? path.posix.join(path.posix.dirname(entryPath), target) : target,
  )
  if (target === '' || path.posix.isAbsolute(target) || joined.split('/').includes('..')) {
    throw refusedArchive(name, `the link ${shownName(entryPath)} leads out of it, to ${shownName(target)}`)
  }
  return requireRelativePath(joined, `a link of ${name}`)
}

function followLinks(files: Map<string, ArchiveFile>, links: readonly Link[], name: string): void {
  const targets = new Map(links.map((link) => [link.path, link.target]))
  for (const link of links) {
    let target = link.target
    for (let hops = 0; targets.has(target) && hops < 16; hops++) target = targets.get(target) ?? ''
    const found = targets.has(target) ? undefined : files.get(target)
    if (found === undefined) {
      throw refusedArchive(name, `the link ${shownName(link.path)} leads to no file of it: ${shownName(link.target)}`)
    }
    files.set(link.path, { ...found, path: link.path })
  }
}

/** What the archive is guilty of is INVALID_ARG; a disk that is full is not. */
export function unpackFailure(reason: unknown, name: string): ServerError {
  if (reason instanceof ServerError) return reason
  const { message, syscall } = reason as NodeJS.ErrnoException
  return syscall === undefined
    ? refusedArchive(name, `it is damaged: ${message}`)
    : new ServerError('INTERNAL', `the archive ${name} cannot be unpacked: ${message}`, { cause: reason })
}

export const refusedArchive = (name: string, reason: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `the archive ${name} is refused: ${reason}`)

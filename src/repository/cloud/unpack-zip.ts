// Unpacks a zip file. The list of entries stands at the end of the file: names and sizes are checked before
// anything is written, and no entry may grow beyond the size that the list says.

import { createWriteStream } from 'node:fs'
import { mkdir, open, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { crc32, createInflateRaw } from 'node:zlib'
import { ServerError } from '../../base/server-error.ts'
import { folderProblem, requireRelativePath, shownName } from './safe-name.ts'
import { refusedArchive as refused, unpackFailure, type ArchiveLimits } from './unpack-archive.ts'

type ZipEntry = {
  readonly path: string
  readonly isDeflated: boolean
  readonly storedBytes: number
  readonly sizeBytes: number
  readonly checksum: number
  /** Of the entry's own header. */
  readonly offset: number
}

/** The list of 100,000 entries with long names is smaller. */
const mostListBytes = 32 * 1024 * 1024
const pieceBytes = 64 * 1024
/** Entries that are looked at before others have their turn: some milliseconds. */
const turnEntries = 1000
const endSignature = 0x06054b50
const end64Signature = 0x06064b50
const locator64Signature = 0x07064b50
const entrySignature = 0x02014b50
const localSignature = 0x04034b50
const endBytes = 22
const commentBytes = 65_535
const full32 = 0xffffffff
const linkMode = 0xa000

/** Throws INVALID_ARG for an archive that is damaged, too large, or has an entry that leads out of the folder. */
export async function unpackZip(file: string, name: string, target: string, limits: ArchiveLimits): Promise<void> {
  const handle = await open(file, 'r')
  try {
    const { size } = await handle.stat()
    const entries = await checked(await readList(handle, size, name, limits), size, name, limits)
    for (const entry of entries) await unpackEntry(handle, size, entry, name, target)
  } catch (reason) {
    throw unpackFailure(reason, name)
  } finally {
    await handle.close()
  }
}

async function readAt(handle: FileHandle, position: number, length: number, name: string): Promise<Buffer> {
  const buffer = Buffer.alloc(length)
  const { bytesRead } = await handle.read(buffer, 0, length, position)
  if (position < 0 || bytesRead !== length) throw refused(name, 'it is cut short')
  return buffer
}

type ListPlace = { readonly offset: number; readonly bytes: number; readonly count: number }

async function findList(handle: FileHandle, size: number, name: string): Promise<ListPlace> {
  const tailBytes = Math.min(size, endBytes + commentBytes)
  const tail = await readAt(handle, size - tailBytes, tailBytes, name)
  let at = tail.length - endBytes
  while (at >= 0 && tail.readUInt32LE(at) !== endSignature) at--
  if (at < 0) throw refused(name, 'it is no zip file')
  const place = {
    count: tail.readUInt16LE(at + 10),
    bytes: tail.readUInt32LE(at + 12),
    offset: tail.readUInt32LE(at + 16),
  }
  const isLarge = place.count === 0xffff || place.bytes === full32 || place.offset === full32
  if (!isLarge || at < 20 || tail.readUInt32LE(at - 20) !== locator64Signature) return place
  const end = await readAt(handle, Number(tail.readBigUInt64LE(at - 12)), 56, name)
  if (end.readUInt32LE(0) !== end64Signature) throw refused(name, 'it is damaged')
  const number = (offset: number): number => Number(end.readBigUInt64LE(offset))
  return { count: number(32), bytes: number(40), offset: number(48) }
}

async function readList(handle: FileHandle, size: number, name: string, limits: ArchiveLimits): Promise<ZipEntry[]> {
  const place = await findList(handle, size, name)
  if (place.count > limits.maxEntries) throw refused(name, `it has more than ${limits.maxEntries} entries`)
  if (place.bytes > mostListBytes) throw refused(name, `its list of entries has more than ${mostListBytes} bytes`)
  if (place.offset + place.bytes > size) throw refused(name, 'it is cut short')
  const list = await readAt(handle, place.offset, place.bytes, name)
  const entries: ZipEntry[] = []
  let at = 0
  while (entries.length < place.count) {
    if (at + 46 > list.length || list.readUInt32LE(at) !== entrySignature) throw refused(name, 'it is damaged')
    const [nameBytes, extraBytes, noteBytes] = [28, 30, 32].map((offset) => list.readUInt16LE(at + offset)) as [
      number,
      number,
      number,
    ]
    const next = at + 46 + nameBytes + extraBytes + noteBytes
    if (next > list.length) throw refused(name, 'it is damaged')
    if (entries.push(readEntry(list, at, nameBytes, extraBytes, name)) % turnEntries === 0) await nextTurn()
    at = next
  }
  return entries
}

function readEntry(list: Buffer, at: number, nameBytes: number, extraBytes: number, name: string): ZipEntry {
  const entryPath = list.toString('utf8', at + 46, at + 46 + nameBytes)
  if ((list.readUInt16LE(at + 8) & 1) !== 0) throw refused(name, `${shownName(entryPath)} is encrypted`)
  const method = list.readUInt16LE(at + 10)
  if (method !== 0 && method !== 8) throw refused(name, `${shownName(entryPath)} is compressed in an unknown way`)
  if (((list.readUInt32LE(at + 38) >>> 16) & 0xf000) === linkMode)
    throw refused(name, `${shownName(entryPath)} is a link`)
  const extra = list.subarray(at + 46 + nameBytes, at + 46 + nameBytes + extraBytes)
  const [sizeBytes, storedBytes, offset] = wideNumbers(
    [list.readUInt32LE(at + 24), list.readUInt32LE(at + 20), list.readUInt32LE(at + 42)],
    extra,
    name,
  )
  const checksum = list.readUInt32LE(at + 16)
  return { path: entryPath, isDeflated: method === 8, storedBytes, sizeBytes, checksum, offset }
}

/** Numbers that do not fit 32 bits stand in an extra field, in this order. */
function wideNumbers(numbers: [number, number, number], extra: Buffer, name: string): [number, number, number] {
  if (!numbers.includes(full32)) return numbers
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2)) {
    if (extra.readUInt16LE(at) !== 1) continue
    let field = at + 4
    return numbers.map((value) => {
      if (value !== full32) return value
      if (field + 8 > extra.length) throw refused(name, 'it is damaged')
      field += 8
      return Number(extra.readBigUInt64LE(field - 8))
    }) as [number, number, number]
  }
  throw refused(name, 'it is damaged')
}

async function checked(
  entries: readonly ZipEntry[],
  size: number,
  name: string,
  limits: ArchiveLimits,
): Promise<ZipEntry[]> {
  const seen = new Set<string>()
  const files: ZipEntry[] = []
  let unpackedBytes = 0
  let storedBytes = 0
  for (const [index, entry] of entries.entries()) {
    if (index % turnEntries === turnEntries - 1) await nextTurn()
    const isFolder = entry.path.endsWith('/')
    const entryPath = requireRelativePath(isFolder ? entry.path.slice(0, -1) : entry.path, `an entry of ${name}`)
    if (isFolder) continue
    if (seen.has(entryPath)) throw refused(name, `it has two entries with the name ${shownName(entryPath)}`)
    seen.add(entryPath)
    files.push(entry)
    unpackedBytes += entry.sizeBytes
    storedBytes += entry.storedBytes
    // One part of the file that stands for many entries makes a small archive a bomb.
    if (storedBytes > size) throw refused(name, 'its entries overlap')
    if (unpackedBytes > limits.maxUnpackedBytes) {
      throw refused(name, `it unpacks to more than ${limits.maxUnpackedBytes} bytes`)
    }
  }
  const problem = folderProblem(seen, limits.maxEntries)
  if (problem !== null) throw refused(name, problem)
  return files
}

async function unpackEntry(
  handle: FileHandle,
  size: number,
  entry: ZipEntry,
  name: string,
  target: string,
): Promise<void> {
  const file = path.join(target, entry.path)
  await mkdir(path.dirname(file), { recursive: true })
  const head = await readAt(handle, entry.offset, 30, name)
  if (head.readUInt32LE(0) !== localSignature) throw refused(name, 'it is damaged')
  const start = entry.offset + 30 + head.readUInt16LE(26) + head.readUInt16LE(28)
  if (start + entry.storedBytes > size) throw refused(name, 'it is cut short')
  const output = createWriteStream(file, { flags: 'wx', mode: 0o600 })
  if (entry.storedBytes === 0) {
    await pipeline([], output)
    return
  }
  const source = piecesOf(handle, start, start + entry.storedBytes, name)
  const exact = exactly(entry, name)
  await (entry.isDeflated ? pipeline(source, createInflateRaw(), exact, output) : pipeline(source, exact, output))
}

/** A read stream would leave a listener on the file for each entry. */
async function* piecesOf(handle: FileHandle, start: number, end: number, name: string): AsyncGenerator<Buffer> {
  for (let at = start; at < end; at += pieceBytes) {
    yield await readAt(handle, at, Math.min(pieceBytes, end - at), name)
  }
}

/** Ends an entry that unpacks to something else than the list says: such an archive is a bomb, or damaged. */
function exactly({ path: entryPath, sizeBytes, checksum }: ZipEntry, name: string): Transform {
  let seen = 0
  let sum = 0
  const wrong = (what: string): ServerError =>
    refused(name, `${shownName(entryPath)} does not have the ${what} that its list says`)
  return new Transform({
    transform(chunk: Buffer, _, done) {
      seen += chunk.length
      sum = crc32(chunk, sum)
      done(seen > sizeBytes ? wrong('size') : null, chunk)
    },
    flush(done) {
      done(seen !== sizeBytes ? wrong('size') : sum !== checksum ? wrong('checksum') : null)
    },
  })
}

// Unpacks an archive of any form into a folder: a zip file, a .tar, a .tar.gz, or a folder, which is copied.

import { createWriteStream } from 'node:fs'
import { copyFile, lstat, mkdir, opendir, readdir, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { beginsWith, refusedArchive, unpackArchive, type ArchiveLimits } from './unpack-archive.ts'
import { unpackZip } from './unpack-zip.ts'

const zipMark = [0x50, 0x4b]
const partsName = '.parts'

/**
 * The folder exists and is empty. `marker` is a file that lies at the top of every such archive: a .tar may have one folder around
 * everything. Throws INVALID_ARG for an archive that is damaged, too large, or has an entry that leads out of it.
 */
export async function unpackIntoFolder(
  file: string,
  target: string,
  limits: ArchiveLimits,
  marker: string,
): Promise<void> {
  const name = path.basename(file)
  const found = await stat(file)
  if (found.isDirectory()) await copyFolder(await topOf(file, marker), target, name, limits)
  // A pipe would be read for ever.
  else if (!found.isFile()) throw refusedArchive(name, 'it is no file and no folder')
  else if (await beginsWith(file, zipMark)) await unpackZip(file, name, target, limits)
  else await unpackTar(file, name, target, limits, marker)
}

async function unpackTar(
  file: string,
  name: string,
  target: string,
  limits: ArchiveLimits,
  marker: string,
): Promise<void> {
  // Names are checked when all of them are known. Until then an entry has a number for its name.
  const parts = path.join(target, partsName)
  await mkdir(parts)
  let count = 0
  const files = await unpackArchive(file, name, limits, async (content) => {
    const part = String(count++)
    const place = path.join(parts, part)
    await pipeline(content, createWriteStream(place, { flags: 'wx', mode: 0o600 }))
    return { sha256: part, sizeBytes: (await stat(place)).size }
  })
  if (files.some(({ path: one }) => one === partsName || one.startsWith(`${partsName}/`))) {
    throw refusedArchive(name, `it has an entry with the name ${partsName}, where its files wait to be placed`)
  }
  const bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  if (bytes > limits.maxUnpackedBytes) {
    throw refusedArchive(name, `with the copies that its links are it has more than ${limits.maxUnpackedBytes} bytes`)
  }
  const top = files.some((each) => each.path === marker) ? '' : `${files[0]?.path.split('/')[0] ?? ''}/`
  const placed = new Map<string, string>()
  for (const { path: entryPath, sha256: part } of files) {
    if (part === '' || !entryPath.startsWith(top)) continue
    const place = path.join(target, entryPath.slice(top.length))
    await mkdir(path.dirname(place), { recursive: true })
    // A link in the archive has the content of another entry.
    const twin = placed.get(part)
    await (twin === undefined ? rename(path.join(parts, part), place) : copyFile(twin, place))
    placed.set(part, place)
  }
  await rm(parts, { recursive: true })
}

/** The folder, or the one folder around everything. */
async function topOf(folder: string, marker: string): Promise<string> {
  if (await exists(path.join(folder, marker))) return folder
  const [first, ...others] = await readdir(folder, { withFileTypes: true })
  const isWrapped = first?.isDirectory() === true && others.length === 0
  return isWrapped ? path.join(folder, first.name) : folder
}

const exists = (file: string): Promise<boolean> =>
  lstat(file).then(
    () => true,
    () => false,
  )

async function copyFolder(from: string, target: string, name: string, limits: ArchiveLimits): Promise<void> {
  let count = 0
  let bytes = 0
  const folders = ['']
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    await mkdir(path.join(target, folder), { recursive: true })
    for await (const entry of await opendir(path.join(from, folder))) {
      const place = path.join(folder, entry.name)
      if (++count > limits.maxEntries) throw refusedArchive(name, `it has more than ${limits.maxEntries} entries`)
      if (entry.isDirectory()) folders.push(place)
      else if (!entry.isFile()) throw refusedArchive(name, `${place} is a link, a pipe or a device`)
      else {
        bytes += (await lstat(path.join(from, place))).size
        if (bytes > limits.maxUnpackedBytes) {
          throw refusedArchive(name, `it has more than ${limits.maxUnpackedBytes} bytes`)
        }
        await copyFile(path.join(from, place), path.join(target, place))
      }
    }
  }
}

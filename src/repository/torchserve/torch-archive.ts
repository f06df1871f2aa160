// A TorchServe archive on disk: a .mar (a zip file), a .tar.gz, or a folder. Unpacked, it is the version folder of a model
// whose backend is `torchserve`.

import { createWriteStream } from 'node:fs'
import { copyFile, lstat, mkdir, open, opendir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { FileTextError, parseFileText } from '../../base/file-text.ts'
import { ServerError } from '../../base/server-error.ts'
import { requireRelativePath } from '../cloud/safe-name.ts'
import { unpackArchive, type ArchiveLimits } from '../cloud/unpack-archive.ts'
import { unpackZip } from '../cloud/unpack-zip.ts'

export type TorchArchive = {
  /** As the manifest names the model. */
  readonly name: string
  /** Any text, such as `1.0`. */
  readonly version: string
  readonly handler: string
  readonly runtime: string
  /** What model-config.yaml says; an object without keys where there is no such file. */
  readonly config: Readonly<Record<string, unknown>>
  /** '' where the archive has none. */
  readonly requirementsFile: string
  /** The handler sends answers in pieces. */
  readonly answersInPieces: boolean
}

const mostManifestBytes = 1024 * 1024
/** A larger Python file is not searched for the function that sends pieces. */
const mostSourceBytes = 8 * 1024 * 1024
/** Of models and versions. The name of a model is that of its folder. */
const mostNameLength = 255
const manifestPath = 'MAR-INF/MANIFEST.json'
const pieceFunction = 'send_intermediate_predict_response'

/** Unpacks into a folder that exists and is empty. Throws INVALID_ARG for an archive that cannot be served. */
export async function unpackTorchArchive(file: string, target: string, limits: ArchiveLimits): Promise<TorchArchive> {
  const name = path.basename(file)
  const found = await stat(file)
  if (found.isDirectory()) await copyFolder(file, target, name, limits)
  // A pipe would be read for ever.
  else if (!found.isFile()) throw refused(name, 'it is no file and no folder')
  else if (await isZip(file)) await unpackZip(file, name, target, limits)
  else await unpackTar(file, name, target, limits)
  return readTorchArchive(target, name)
}

/** Reads an archive that is unpacked. Throws INVALID_ARG. */
async function readTorchArchive(folder: string, name: string): Promise<TorchArchive> {
  const manifest = await readSmall(path.join(folder, manifestPath), name, `it has no ${manifestPath}`)
  const value = parsed(manifest, 'json', name, manifestPath)
  const model = objectOf(objectOf(value)['model'])
  const text = (key: string): string => (typeof model[key] === 'string' ? model[key] : '')
  const modelName = text('modelName')
  if (!/^[A-Za-z][\w.-]*$/.test(modelName) || modelName.length > mostNameLength) {
    const rule = `no name of at most ${mostNameLength} letters, digits, _ - and .`
    throw refused(name, `the modelName in its manifest is missing, or is ${rule}`)
  }
  const version = text('modelVersion') === '' ? '1.0' : text('modelVersion')
  if (version.length > mostNameLength || /\p{Cc}/u.test(version)) {
    throw refused(name, `the modelVersion in its manifest is longer than ${mostNameLength}, or has control characters`)
  }
  if (text('handler') === '') throw refused(name, 'its manifest names no handler')
  const configFile = text('configFile')
  const config = configFile === '' ? {} : await readConfig(folder, configFile, name)
  const requirementsFile = text('requirementsFile')
  const runtime = objectOf(value)['runtime']
  return {
    name: modelName,
    version,
    handler: text('handler'),
    runtime: typeof runtime === 'string' ? runtime : 'python',
    config,
    requirementsFile: requirementsFile === '' ? '' : requireRelativePath(requirementsFile, `the manifest of ${name}`),
    answersInPieces: await mentionsPieces(folder),
  }
}

async function readConfig(folder: string, file: string, name: string): Promise<TorchArchive['config']> {
  const place = path.join(folder, requireRelativePath(file, `the manifest of ${name}`))
  return objectOf(parsed(await readSmall(place, name, `it has no ${file}`), 'yaml', name, file))
}

function parsed(text: string, format: 'json' | 'yaml', name: string, file: string): unknown {
  try {
    return parseFileText(text, format).value
  } catch (reason) {
    if (reason instanceof FileTextError) throw refused(name, `${file}: ${reason.message}`)
    throw reason
  }
}

async function readSmall(file: string, name: string, absent: string): Promise<string> {
  const size = await stat(file).then(
    (found) => (found.isFile() ? found.size : -1),
    () => -1,
  )
  if (size < 0) throw refused(name, absent)
  if (size > mostManifestBytes) throw refused(name, `${path.basename(file)} has more than ${mostManifestBytes} bytes`)
  return readFile(file, 'utf8')
}

async function isZip(file: string): Promise<boolean> {
  const handle = await open(file, 'r')
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0)
    return bytesRead === 4 && buffer[0] === 0x50 && buffer[1] === 0x4b
  } finally {
    await handle.close()
  }
}

async function unpackTar(file: string, name: string, target: string, limits: ArchiveLimits): Promise<void> {
  const parts = path.join(target, '.parts')
  await mkdir(parts)
  let count = 0
  const files = await unpackArchive(file, name, limits, async (content) => {
    const part = String(count++)
    let sizeBytes = 0
    const counted = async function* (): AsyncGenerator<Uint8Array> {
      for await (const piece of content) {
        sizeBytes += piece.length
        yield piece
      }
    }
    await pipeline(counted, createWriteStream(path.join(parts, part), { flags: 'wx', mode: 0o600 }))
    return { sha256: part, sizeBytes }
  })
  // An archive made with tar has one folder around everything, or none.
  const top = files.some((each) => each.path === manifestPath) ? '' : `${files[0]?.path.split('/')[0] ?? ''}/`
  const counts = new Map<string, number>()
  let bytes = 0
  for (const { sha256, sizeBytes } of files) {
    counts.set(sha256, (counts.get(sha256) ?? 0) + 1)
    bytes += sizeBytes
  }
  if (bytes > limits.maxUnpackedBytes) {
    throw refused(name, `with the copies that its links are it has more than ${limits.maxUnpackedBytes} bytes`)
  }
  for (const each of files) {
    if (each.sha256 === '' || !each.path.startsWith(top)) continue
    const place = path.join(target, each.path.slice(top.length))
    await mkdir(path.dirname(place), { recursive: true })
    const part = path.join(parts, each.sha256)
    // A link in the archive has the content of another entry.
    await ((counts.get(each.sha256) ?? 0) > 1 ? copyFile(part, place) : rename(part, place))
  }
  await rm(parts, { recursive: true })
}

async function copyFolder(from: string, target: string, name: string, limits: ArchiveLimits): Promise<void> {
  let count = 0
  let bytes = 0
  const folders = ['']
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    await mkdir(path.join(target, folder), { recursive: true })
    for await (const entry of await opendir(path.join(from, folder))) {
      const place = path.join(folder, entry.name)
      if (++count > limits.maxEntries) throw refused(name, `it has more than ${limits.maxEntries} entries`)
      if (entry.isDirectory()) folders.push(place)
      else if (!entry.isFile()) throw refused(name, `${place} is a link, a pipe or a device`)
      else {
        bytes += (await lstat(path.join(from, place))).size
        if (bytes > limits.maxUnpackedBytes) throw refused(name, `it has more than ${limits.maxUnpackedBytes} bytes`)
        await copyFile(path.join(from, place), path.join(target, place))
      }
    }
  }
}

/** Whether a Python file of the archive uses TorchServe's function for answers in pieces. */
async function mentionsPieces(folder: string): Promise<boolean> {
  for (const entry of await readdir(folder, { recursive: true })) {
    if (!entry.endsWith('.py')) continue
    const file = path.join(folder, entry)
    const { size } = await stat(file)
    if (size <= mostSourceBytes && (await readFile(file, 'utf8')).includes(pieceFunction)) return true
  }
  return false
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}

const refused = (name: string, reason: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `the archive ${name} is refused: ${reason}`)

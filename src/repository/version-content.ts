// One hash of everything that a version of a model is made of. Servers that have the same files get the same hash.

import { createHash } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import type { ModelFiles } from '../model/backend.ts'
import type { ModelConfig } from '../config/model-config.ts'
import type { VersionContent } from '../model/registered-model.ts'
import type { ContentIndex } from './content-index.ts'
import type { FoundModel } from './model-repository.ts'
import { maxEntries } from './model-layout.ts'

/** Python writes this folder while the model runs. */
const notContent = '__pycache__'

/** By path inside the version's folder. */
type ContentFile = { readonly sizeBytes: number; hash(): Promise<string | null> }

/**
 * The hashes of versions as they were polled: of the files that the server loads, which may change during the load. Null when
 * a hash cannot be known. The files are looked through once, however many versions there are.
 */
export function polledContents(
  contents: ContentIndex,
  { files: all, modelDirectory }: FoundModel,
  versions: Iterable<string>,
): Map<string, Promise<VersionContent | null>> {
  const byVersion = new Map<string, Map<string, ContentFile>>()
  for (const version of versions) byVersion.set(version, new Map())
  for (const [name, { kind, sizeBytes, contentId }] of all ?? []) {
    const slash = name.indexOf('/')
    const files = byVersion.get(name.slice(0, Math.max(0, slash)))
    if (kind !== 'file' || files === undefined) continue
    const hash = async (): Promise<string | null> =>
      contentId === null ? null : contents.hashOf(path.join(modelDirectory, name), contentId)
    files.set(name.slice(slash + 1), { sizeBytes, hash })
  }
  const isWhole = all !== undefined && all.size < maxEntries
  return new Map(
    [...byVersion].map(([version, files]) => [version, isWhole ? contentOf(files) : Promise.resolve(null)]),
  )
}

/** The hash of the files that are in a folder now. A file whose hash is known is not read again. */
export async function versionContent(contents: ContentIndex, versionDirectory: string): Promise<VersionContent | null> {
  const entries = await readdir(versionDirectory, { recursive: true, withFileTypes: true }).catch(() => [])
  if (entries.length >= maxEntries) return null
  const files = new Map<string, ContentFile>()
  for (const entry of entries) {
    if (entry.isDirectory()) continue
    const file = path.join(entry.parentPath, entry.name)
    const found = await stat(file).catch(() => null)
    if (found === null) return null
    // Links to folders, sockets and the like have no bytes of their own.
    if (!found.isFile()) continue
    files.set(path.relative(versionDirectory, file), { sizeBytes: found.size, hash: () => contents.hash(file) })
  }
  return contentOf(files)
}

/** Null when a file cannot be read. */
async function contentOf(files: ReadonlyMap<string, ContentFile>): Promise<VersionContent | null> {
  const byPath = [...files.keys()]
    .filter((name) => !name.split(path.sep).includes(notContent))
    .map((name) => [Buffer.from(name), name] as const)
    .sort(([a], [b]) => a.compare(b))
  const hash = createHash('sha256')
  let byteSize = 0
  for (const [, name] of byPath) {
    const file = files.get(name) as ContentFile
    const content = await file.hash()
    if (content === null) return null
    hash.update(`${content}  ${name}\n`)
    byteSize += file.sizeBytes
  }
  return { hash: hash.digest('hex'), fileCount: byPath.length, byteSize }
}

/** The hash of the files and the configuration together: an answer depends on both. */
export async function versionContentHash(
  contents: ContentIndex,
  config: ModelConfig,
  files: ModelFiles,
): Promise<string> {
  const content = await versionContent(contents, files.versionDirectory)
  // Files that cannot be read may hold anything, so answers of another server may not be used for them.
  const ofFiles = content?.hash ?? crypto.randomUUID()
  return createHash('sha256')
    .update(JSON.stringify([JSON.stringify(config, writable), ofFiles]))
    .digest('hex')
}

function writable(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  return value instanceof Map ? [...(value as Map<unknown, unknown>)] : value
}

// The files of the console. A package has them beside its modules; a checkout bundles them when the first browser asks.

import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { messageOf, ServerError } from '../../base/server-error.ts'

/** Of a server, or of the control plane of many. */
export type ConsoleKind = 'server' | 'fleet'

export type ConsoleFile = { readonly contentType: string; readonly bytes: Buffer; readonly packed: Buffer }

const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

const pack = promisify(gzip)

/** By name; `index.html` is the page, which says whose console it is. Throws ServerError when the package has lost them. */
export async function readConsoleFiles(kind: ConsoleKind): Promise<ReadonlyMap<string, ConsoleFile>> {
  const files = new Map<string, ConsoleFile>()
  for (const [name, found] of await contents()) {
    const contentType = contentTypes[path.extname(name)]
    if (contentType === undefined) continue
    const bytes =
      name === 'index.html' ? Buffer.from(found.toString().replace('<html ', `<html data-kind="${kind}" `)) : found
    files.set(name, { contentType, bytes, packed: await pack(bytes) })
  }
  return files
}

async function contents(): Promise<[name: string, bytes: Buffer][]> {
  try {
    if (import.meta.url.endsWith('.ts')) {
      const bundler = new URL('../../../scripts/bundle-console.ts', import.meta.url).href
      const { bundleConsole } = (await import(bundler)) as { bundleConsole: () => Promise<Map<string, string>> }
      return [...(await bundleConsole())].map(([name, text]) => [name, Buffer.from(text)])
    }
    const folder = fileURLToPath(new URL('../../console', import.meta.url))
    const names = await readdir(folder)
    return await Promise.all(
      names.map(async (name): Promise<[string, Buffer]> => [name, await readFile(path.join(folder, name))]),
    )
  } catch (cause) {
    throw new ServerError('INTERNAL', `the files of the console cannot be read: ${messageOf(cause)}`, { cause })
  }
}

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { gunzipSync } from 'node:zlib'

type Published = { readonly name: string; readonly version: string; readonly dist?: object }

export type NpmRegistry = { readonly url: string; readonly asked: readonly string[]; close(): void }

/** Answers npm with the packages that lie in the folder as tarballs. */
export async function openNpmRegistry(folder: string): Promise<NpmRegistry> {
  const asked: string[] = []
  const tarballs = new Map(
    globSync('*.tgz', { cwd: folder }).map((name) => [name, readFileSync(path.join(folder, name))]),
  )
  const manifests = [...tarballs].map(([file, bytes]) => ({ file, bytes, manifest: manifestOf(bytes) }))
  const server = createServer((request, response) => {
    const asks = decodeURIComponent(request.url ?? '').slice(1)
    asked.push(asks)
    const tarball = tarballs.get(asks)
    const found = manifests.find(({ manifest }) => manifest.name === asks)
    if (tarball !== undefined) response.end(tarball)
    else if (found === undefined) response.writeHead(404).end('{}')
    else response.end(JSON.stringify(packument(found.manifest, `${url}/${found.file}`, found.bytes)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, asked, close: () => void server.close() }
}

function packument(manifest: Published, tarball: string, bytes: Buffer): object {
  const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
  const { name, version } = manifest
  return {
    name,
    'dist-tags': { latest: version },
    versions: { [version]: { ...manifest, dist: { tarball, integrity } } },
  }
}

/** npm puts package.json among the first files of a tarball: 512 bytes of header with name and length, then the file. */
function manifestOf(tarball: Buffer): Published {
  const bytes = gunzipSync(tarball)
  for (let at = 0; at < bytes.length;) {
    const text = (from: number, length: number): string =>
      bytes.toString('utf8', at + from, at + from + length).replace(/\0.*$/s, '')
    const size = Number.parseInt(text(124, 12), 8)
    if (text(0, 100) === 'package/package.json') return JSON.parse(bytes.toString('utf8', at + 512, at + 512 + size)) as Published // prettier-ignore
    at += 512 * (1 + Math.ceil(size / 512))
  }
  throw new Error('a tarball without package.json')
}

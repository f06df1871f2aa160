import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { pack, type Header } from 'tar-stream'
import { SystemClock } from '../../base/clock.ts'
import { silentLog } from '../../base/log.ts'
import { ArchiveTree, withoutTopFolder } from './archive-tree.ts'
import { BlobCache } from './blob-cache.ts'
import { unpackArchive, type ArchiveLimits } from './unpack-archive.ts'

type Entry = Partial<Header> & { readonly name: string; readonly content?: string }

async function tarOf(entries: readonly Entry[]): Promise<Buffer> {
  const archive = pack()
  for (const { content, ...header } of entries) {
    if (header.type === undefined || header.type === 'file') archive.entry(header, content ?? '')
    else archive.entry(header)
  }
  archive.finalize()
  return Buffer.concat(await Array.fromAsync(archive as unknown as AsyncIterable<Buffer>))
}

let folder = ''
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-archive-'))
})
after(() => rm(folder, { recursive: true, force: true }))

describe('unpacking', () => {
  const limits: ArchiveLimits = { maxEntries: 5, maxUnpackedBytes: 100 }

  async function unpack(bytes: Uint8Array): Promise<[path: string, content: string][]> {
    const file = path.join(folder, 'some.tar')
    await writeFile(file, bytes)
    const files = await unpackArchive(file, 'some.tar', limits, async (content) => {
      const all = Buffer.concat(await Array.fromAsync(content))
      return { sha256: all.toString(), sizeBytes: all.length }
    })
    return files.map((each) => [each.path, each.sha256])
  }

  test('takes files, folders, and links to files of the archive, compressed or not', async () => {
    const tar = await tarOf([
      { name: './m/', type: 'directory' },
      { name: './m/1/model.py', content: 'code' },
      { name: 'm/2.py', type: 'symlink', linkname: '1/model.py' },
      { name: 'm/3.py', type: 'link', linkname: 'm/1/model.py' },
      { name: 'm/4.py', type: 'symlink', linkname: '2.py' },
    ])
    const expected = [
      ['m', ''],
      ['m/1/model.py', 'code'],
      ['m/2.py', 'code'],
      ['m/3.py', 'code'],
      ['m/4.py', 'code'],
    ]
    assert.deepEqual(await unpack(tar), expected)
    assert.deepEqual(await unpack(gzipSync(tar)), expected)
  })

  const refusals: [what: string, entries: Entry[], reason: RegExp][] = [
    ['a name that climbs', [{ name: '../evil' }], /the name '\.\.'/],
    ['a name that climbs further in', [{ name: 'm/../../evil' }], /the name '\.\.'/],
    ['an absolute name', [{ name: '/etc/evil' }], /a leading slash/],
    ['a backslash', [{ name: 'm\\..\\evil' }], /a backslash/],
    ['a drive', [{ name: 'C:/evil' }], /a drive/],
    ['a name that is too long', [{ name: `m/${'a'.repeat(300)}` }], /more than 255 bytes/],
    ['too many folders', [{ name: `${'a/'.repeat(40)}b` }], /more than 32 folders/],
    ['a symbolic link out', [{ name: 'm/x', type: 'symlink', linkname: '../../evil' }], /leads out of it/],
    ['an absolute symbolic link', [{ name: 'm/x', type: 'symlink', linkname: '/etc/passwd' }], /leads out of it/],
    ['a hard link out', [{ name: 'm/x', type: 'link', linkname: '../evil' }], /leads out of it/],
    ['a link to nothing', [{ name: 'm/x', type: 'symlink', linkname: 'y' }], /leads to no file/],
    [
      'links in a circle',
      [
        { name: 'm/x', type: 'symlink', linkname: 'y' },
        { name: 'm/y', type: 'symlink', linkname: 'x' },
      ],
      /leads to no file/,
    ],
    ['a device', [{ name: 'm/x', type: 'character-device', devmajor: 1, devminor: 3 }], /character-device/],
    ['a pipe', [{ name: 'm/x', type: 'fifo' }], /fifo/],
    ['the same name twice', [{ name: 'm/x' }, { name: './m/x' }], /two entries/],
    ['a file that is a folder too', [{ name: 'm/x' }, { name: 'm/x/', type: 'directory' }], /both as a file/],
    ['too many entries', Array.from({ length: 6 }, (_, i) => ({ name: `m/${i}` })), /more than 5 entries/],
    ['too many bytes', [{ name: 'm/x', content: 'x'.repeat(101) }], /more than 100 bytes/],
  ]
  for (const [what, entries, reason] of refusals) {
    test(`refuses ${what}`, async () => {
      const tar = await tarOf(entries)
      await assert.rejects(unpack(tar), (error: Error & { code: string }) => {
        assert.equal(error.code, 'INVALID_ARG')
        assert.match(error.message, reason)
        return true
      })
    })
  }

  test('refuses what is cut short or no archive', async () => {
    const tar = await tarOf([{ name: 'm/x', content: 'content' }])
    await assert.rejects(unpack(gzipSync(tar).subarray(0, 60)), /damaged/)
    await assert.rejects(unpack(tar.subarray(0, 515)), /damaged/)
    await assert.rejects(unpack(Buffer.alloc(2048, 'no archive')), /damaged/)
  })
})

test('one folder around all models is left out, a lone model is not', () => {
  const strip = (...paths: string[]): string[] =>
    withoutTopFolder(paths.map((each) => ({ path: each, sha256: 'x', sizeBytes: 1 }))).map((file) => file.path)
  assert.deepEqual(strip('models', 'models/m/1/x', 'models/n/config.pbtxt'), ['m/1/x', 'n/config.pbtxt'])
  assert.deepEqual(strip('m/1/x', 'm/config.pbtxt'), ['m/1/x', 'm/config.pbtxt'])
  assert.deepEqual(strip('m/1/x', 'n/1/x'), ['m/1/x', 'n/1/x'])
})

describe('an archive behind HTTP', () => {
  let server: Server
  let cache: BlobCache
  let body: Buffer = Buffer.alloc(0)
  const requests: string[] = []
  let cutAt = Infinity
  let answersHead = true

  beforeEach(async () => {
    requests.length = 0
    cutAt = Infinity
    answersHead = true
    server = createServer((request, response) => {
      const etag = `"${createHash('md5').update(body).digest('hex')}"`
      const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
      requests.push(`${request.method} ${from}`)
      if (request.headers.authorization !== `Basic ${Buffer.from('user:pass').toString('base64')}`) {
        response.writeHead(401).end()
      } else if (request.method === 'HEAD' && !answersHead) response.writeHead(405).end()
      else if (request.headers['if-none-match'] === etag) response.writeHead(304).end()
      else {
        const rest = body.subarray(from)
        response.writeHead(from === 0 ? 200 : 206, { etag, 'content-length': rest.length })
        if (request.method === 'HEAD') response.end()
        else if (rest.length <= cutAt) response.end(rest)
        else response.write(rest.subarray(0, cutAt), () => setTimeout(() => response.destroy(), 50))
      }
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    cache = await BlobCache.open(silentLog, path.join(folder, 'cache'), Infinity)
  })
  afterEach(async () => {
    server.closeAllConnections()
    server.close()
    await cache.close()
    await rm(path.join(folder, 'cache'), { recursive: true, force: true })
  })

  const tree = (): ArchiveTree => {
    const url = `http://user:pass@127.0.0.1:${(server.address() as AddressInfo).port}/m.tar.gz?token=secret`
    const settings = { retry: { attempts: 5, firstDelayMs: 1, maxDelayMs: 2 }, stallMs: 5000 }
    const location = { kind: 'archive', path: 'http://127.0.0.1/m.tar.gz', url } as const
    return new ArchiveTree({ clock: new SystemClock(), log: silentLog, cache }, settings, location)
  }

  test('is downloaded when its ETag changes, and not again after a restart', async () => {
    body = gzipSync(await tarOf([{ name: 'm/config.pbtxt', content: 'one' }]))
    const first = tree()
    assert.deepEqual(await first.modelNames(), ['m'])
    const [file] = await first.files('m')
    assert.ok(file !== undefined)
    assert.equal(await readFile(cache.fileOf(await first.fetch('m', file, () => undefined)), 'utf8'), 'one')
    await first.modelNames()
    assert.deepEqual(requests, ['HEAD 0', 'GET 0', 'HEAD 0'])
    assert.deepEqual(await tree().modelNames(), ['m'])
    assert.deepEqual(requests.slice(3), ['HEAD 0'])
    body = gzipSync(await tarOf([{ name: 'n/config.pbtxt', content: 'two' }]))
    assert.deepEqual(await first.modelNames(), ['n'])
    assert.deepEqual(requests.slice(4), ['HEAD 0', 'GET 0'])
  })

  test('is resumed when the connection breaks', async () => {
    body = await tarOf([{ name: 'm/config.pbtxt', content: 'x'.repeat(3000) }])
    cutAt = 2000
    assert.deepEqual(await tree().modelNames(), ['m'])
    assert.deepEqual(requests.slice(0, 3), ['HEAD 0', 'GET 0', 'GET 2000'])
  })

  test('is watched by conditional GET where HEAD is refused', async () => {
    answersHead = false
    body = gzipSync(await tarOf([{ name: 'm/config.pbtxt', content: 'one' }]))
    const one = tree()
    await one.modelNames()
    const before = requests.length
    await one.modelNames()
    assert.deepEqual(requests.slice(before), ['GET 0'])
  })

  test('that is refused leaves the models of the one before', async () => {
    body = gzipSync(await tarOf([{ name: 'm/config.pbtxt', content: 'one' }]))
    const one = tree()
    await one.modelNames()
    body = gzipSync(await tarOf([{ name: '../m/config.pbtxt', content: 'two' }]))
    await assert.rejects(one.modelNames(), /has the name "\.\.\/m\/config\.pbtxt", which is refused/)
    assert.equal((await one.files('m')).length, 1)
  })
})

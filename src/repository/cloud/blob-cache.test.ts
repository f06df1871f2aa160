import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { appendFile, chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, test } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { silentLog } from '../../base/log.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { BlobCache } from './blob-cache.ts'
import { downloadFile, type Download } from './download-file.ts'

let directory = ''
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'galatea-blobs-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const openCache = (limitBytes = Infinity): Promise<BlobCache> => BlobCache.open(silentLog, directory, limitBytes)

async function add(cache: BlobCache, source: string, text: string): Promise<string> {
  const file = cache.temporaryFile()
  await writeFile(file, text)
  const sha256 = createHash('sha256').update(text).digest('hex')
  await cache.add(source, file, { sha256, sizeBytes: text.length })
  return sha256
}

test('content is found by its source, once, also by the next server', async () => {
  const one = await openCache()
  const sha256 = await add(one, 'a', 'hello')
  assert.equal(await add(one, 'b', 'hello'), sha256)
  await one.close()
  const two = await openCache()
  assert.deepEqual(await two.find('b'), { sha256, sizeBytes: 5 })
  assert.equal(await two.find('c'), null)
  assert.equal((await readdir(path.join(directory, 'blobs', sha256.slice(0, 2)))).length, 1)
  await two.close()
})

test('content that somebody has written to is not used again', async () => {
  const cache = await openCache()
  const sha256 = await add(cache, 'a', 'hello')
  const file = cache.fileOf(sha256)
  await chmod(file, 0o644)
  await writeFile(file, 'jello')
  assert.equal(await cache.find('a'), null)
  await add(cache, 'a', 'hello')
  assert.equal(await readFile(file, 'utf8'), 'hello')
  await cache.close()
})

test('the least recently used files go first, and never one that a server uses', async () => {
  const cache = await openCache(10)
  const hashes = []
  for (const [index, text] of ['aaaaa', 'bbbbb', 'ccccc', 'ddddd'].entries()) {
    hashes.push(await add(cache, text, text))
    const record = createHash('sha256').update(text).digest('hex')
    const usedAt = new Date(1_700_000_000_000 + index * 1000)
    await utimes(path.join(directory, 'sources', record.slice(0, 2), record), usedAt, usedAt)
  }
  // Another server of the same folder uses the oldest.
  const other = await openCache(10)
  await other.linkTo(hashes[0] ?? '', path.join(other.lease.directory, 'in-use'))
  await cache.evict()
  const left = await Promise.all(['aaaaa', 'bbbbb', 'ccccc', 'ddddd'].map((source) => cache.find(source)))
  assert.deepEqual(
    left.map((blob) => blob !== null),
    [true, false, false, true],
  )
  await other.close()
  await cache.close()
})

test('what a server that is gone has left behind is taken away, what one that runs has is not', async () => {
  const running = await openCache()
  const gone = path.join(directory, 'leases', 'gone')
  await mkdir(gone)
  const { host } = JSON.parse(await readFile(path.join(running.lease.directory, 'lease.json'), 'utf8')) as {
    host: string
  }
  await writeFile(path.join(gone, 'lease.json'), JSON.stringify({ host, pid: 2 ** 22 + 1 }))
  const elsewhere = path.join(directory, 'leases', 'elsewhere')
  await mkdir(elsewhere)
  await writeFile(path.join(elsewhere, 'lease.json'), JSON.stringify({ host: 'another machine', pid: 1 }))
  const next = await openCache()
  const left = await readdir(path.join(directory, 'leases'))
  assert.ok(!left.includes('gone') && left.includes('elsewhere'))
  await next.close()
  await running.close()
})

const clock = new SystemClock()
const settings = { retry: { attempts: 4, firstDelayMs: 1, maxDelayMs: 2 }, stallMs: 200 }

async function* part(text: string, isBroken = false): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(Buffer.from(text))
  if (isBroken) throw Object.assign(new Error('gone'), { code: 'ECONNRESET' })
}

const download = (read: Download['read'], more: Partial<Download> = {}): Download => ({
  source: 'source',
  name: 'the file',
  sizeBytes: 10,
  limitBytes: 10,
  md5: null,
  read,
  ...more,
})

test('a download goes on where it broke, and where an earlier server left it', async () => {
  const cache = await openCache()
  const log = new MemoryLog()
  const offsets: number[] = []
  const failing = download((offset) => {
    offsets.push(offset)
    if (offset < 6) return Promise.resolve(part('0123456789'.slice(offset, offset + 3), true))
    return Promise.reject(Object.assign(new Error('forbidden'), { status: 403 }))
  })
  await assert.rejects(
    downloadFile({ clock, log, cache }, settings, failing, () => undefined),
    /the file: forbidden/,
  )
  assert.deepEqual(offsets, [0, 3, 6])
  await cache.close()
  const next = await openCache()
  let bytes = 0
  const rest = download((offset) => Promise.resolve(part('0123456789'.slice(offset))))
  const blob = await downloadFile({ clock, log, cache: next }, settings, rest, (some) => (bytes += some))
  assert.equal(await readFile(next.fileOf(blob.sha256), 'utf8'), '0123456789')
  assert.equal(bytes, 10)
  assert.deepEqual(await readdir(path.join(directory, 'partial')), [])
  await next.close()
})

test('a stream that breaks before it is read is tried again, and harms nobody', async () => {
  const cache = await openCache()
  let attempts = 0
  const broken = download((offset) => {
    if (++attempts > 1) return Promise.resolve(part('0123456789'.slice(offset)))
    const stream = new Readable({ read: () => undefined })
    setImmediate(() => stream.destroy(Object.assign(new Error('gone'), { code: 'ECONNRESET' })))
    return Promise.resolve(stream)
  })
  const blob = await downloadFile({ clock, log: silentLog, cache }, settings, broken, () => undefined)
  assert.equal(await readFile(cache.fileOf(blob.sha256), 'utf8'), '0123456789')
  assert.equal(attempts, 2)
  await cache.close()
})

test('a download that stands still is tried again', async () => {
  const cache = await openCache()
  let attempts = 0
  const still = download((offset, signal) => {
    if (++attempts > 1) return Promise.resolve(part('0123456789'.slice(offset)))
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('late'))))
  })
  await downloadFile({ clock, log: silentLog, cache }, settings, still, () => undefined)
  assert.equal(attempts, 2)
  await cache.close()
})

test('content that is longer than announced, or not what its MD5 says, is refused', async () => {
  const cache = await openCache()
  const dependencies = { clock, log: silentLog, cache }
  const long = download(() => Promise.resolve(part('0123456789!')))
  await assert.rejects(
    downloadFile(dependencies, settings, long, () => undefined),
    /longer than the 10 bytes/,
  )
  const md5 = createHash('md5').update('other').digest('base64')
  const wrong = download(() => Promise.resolve(part('0123456789')), { source: 'other', md5 })
  await assert.rejects(
    downloadFile(dependencies, settings, wrong, () => undefined),
    /other bytes than its MD5 says/,
  )
  assert.equal(await cache.find('other'), null)
  await cache.close()
})

test('a partial file that is longer than the whole is not built upon', async () => {
  const cache = await openCache()
  const file = await cache.adoptPartial('source')
  await appendFile(file, 'far too long for this')
  await cache.keepPartial('source', file)
  const whole = download((offset) => Promise.resolve(part('0123456789'.slice(offset))))
  const blob = await downloadFile({ clock, log: silentLog, cache }, settings, whole, () => undefined)
  assert.equal((await stat(cache.fileOf(blob.sha256))).size, 10)
  await cache.close()
})

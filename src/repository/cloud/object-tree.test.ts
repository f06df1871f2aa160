import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { silentLog } from '../../base/log.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { BlobCache } from './blob-cache.ts'
import { ModelViews } from './model-views.ts'
import type { ObjectStore, StoredObject } from './object-store.ts'
import { ObjectTree } from './object-tree.ts'
import { Turnstile } from '../../base/turnstile.ts'

let directory = ''
let cache: BlobCache
before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'galatea-tree-'))
  cache = await BlobCache.open(silentLog, path.join(directory, 'cache'), Infinity)
})
after(async () => {
  await cache.close()
  await rm(directory, { recursive: true, force: true })
})

const clock = new SystemClock()
const settings = { retry: { attempts: 3, firstDelayMs: 1, maxDelayMs: 2 }, stallMs: 5000 }

/** A store in memory: key → content. `failure` stands for whatever is wrong with it. */
class MemoryStore implements ObjectStore {
  readonly identity = 'memory'
  readonly contents = new Map<string, string>()
  failure: ((key: string) => Error | null) | null = null
  reads = 0

  folders(prefix: string): Promise<string[]> {
    const failure = this.failure?.('') ?? null
    if (failure !== null) return Promise.reject(failure)
    return Promise.resolve([
      ...new Set([...this.contents.keys()].map((key) => `${prefix}${key.slice(prefix.length).split('/')[0]}/`)),
    ])
  }

  objects(prefix: string): Promise<StoredObject[]> {
    const found = [...this.contents].filter(([key]) => key.startsWith(prefix))
    return Promise.resolve(found.map(([key, text]) => ({ key, sizeBytes: text.length, tag: text, md5: null })))
  }

  read({ key }: StoredObject, offset: number): Promise<AsyncIterable<Uint8Array>> {
    this.reads++
    const failure = this.failure?.(key) ?? null
    if (failure !== null) return Promise.reject(failure)
    return Promise.resolve(bytesOf((this.contents.get(key) ?? '').slice(offset)))
  }

  close(): void {
    this.failure = () => new Error('closed')
  }
}

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(Buffer.from(text))
}

const treeOf = (store: ObjectStore, open = (): Promise<ObjectStore> => Promise.resolve(store)): ObjectTree =>
  new ObjectTree({ clock, log: silentLog, cache }, settings, { first: store, open }, { prefix: 'p/', path: 's3://b/p' })

const viewsOf = (tree: ObjectTree, name: string): ModelViews =>
  new ModelViews(
    { clock, log: silentLog, cache, tree, turnstile: new Turnstile(2) },
    path.join(directory, name),
    's3://b/p',
  )

test('a view appears whole or not at all, and an update that fails leaves the one before', async () => {
  const store = new MemoryStore()
  store.contents.set('p/m/config.pbtxt', 'a').set('p/m/1/weights', 'first')
  const views = viewsOf(treeOf(store), 'whole')
  const one = await views.sync('m')
  assert.ok(one !== null)
  assert.equal(await readFile(path.join(one.root, 'm/1/weights'), 'utf8'), 'first')
  store.contents.set('p/m/2/weights', 'second')
  store.failure = (key) => (key.includes('/2/') ? Object.assign(new Error('denied'), { status: 403 }) : null)
  await assert.rejects(views.sync('m'), /'m\/2\/weights' of s3:\/\/b\/p: denied/)
  assert.equal(views.current('m'), one)
  assert.deepEqual(await readdir(path.join(directory, 'whole')), [path.basename(one.root)])
  store.failure = null
  const two = await views.sync('m')
  assert.ok(two !== null && two.root !== one.root)
  assert.equal(await readFile(path.join(two.root, 'm/2/weights'), 'utf8'), 'second')
  assert.equal(await readFile(path.join(one.root, 'm/1/weights'), 'utf8'), 'first', 'what serves reads on')
})

test('nothing is read when nothing has changed, and those who ask together share one download', async () => {
  const store = new MemoryStore()
  store.contents.set('p/shared/config.pbtxt', 'shared-config').set('p/shared/1/weights', 'shared-weights')
  const views = viewsOf(treeOf(store), 'shared')
  const [one, two] = await Promise.all([views.sync('shared'), views.sync('shared')])
  assert.equal(one, two)
  assert.equal(await views.sync('shared'), one)
  assert.equal(store.reads, 2)
  assert.equal(await views.sync('absent'), null)
})

test('a name that is both a file and a folder is refused', async () => {
  const store = new MemoryStore()
  store.contents.set('p/m/1', 'file').set('p/m/1/weights', 'inside')
  await assert.rejects(viewsOf(treeOf(store), 'both').sync('m'), /has '1' both as a file and as a folder/)
})

test('credentials that are refused are read again once', async () => {
  const old = new MemoryStore()
  old.failure = () => Object.assign(new Error('expired'), { name: 'ExpiredToken', $metadata: { httpStatusCode: 400 } })
  const renewed = new MemoryStore()
  renewed.contents.set('p/m/config.pbtxt', 'x')
  let opened = 0
  const tree = treeOf(old, () => {
    opened++
    return Promise.resolve(renewed)
  })
  assert.deepEqual(await tree.modelNames(), ['m'])
  assert.deepEqual(await tree.modelNames(), ['m'])
  assert.equal(opened, 1)
})

test('a listing is tried again when the store is busy, and not when it is refused', async () => {
  const store = new MemoryStore()
  store.contents.set('p/m/config.pbtxt', 'x')
  let failures = 2
  store.failure = () => (failures-- > 0 ? Object.assign(new Error('busy'), { statusCode: 503 }) : null)
  assert.deepEqual(await treeOf(store).modelNames(), ['m'])
  let calls = 0
  store.failure = () => {
    calls++
    return Object.assign(new Error('no such bucket'), { statusCode: 404 })
  }
  await assert.rejects(treeOf(store).modelNames(), /s3:\/\/b\/p cannot be listed: no such bucket/)
  assert.equal(calls, 1)
})

test('a folder whose name no model can have is left out, and said once', async () => {
  const store = new MemoryStore()
  store.folders = () => Promise.resolve(['p/../', 'p/m/', 'p/..\\x/', 'elsewhere/'])
  const log = new MemoryLog()
  const stores = { first: store, open: () => Promise.resolve(store) }
  const tree = new ObjectTree({ clock, log, cache }, settings, stores, { prefix: 'p/', path: 's3://b/p' })
  assert.deepEqual(await tree.modelNames(), ['m'])
  await tree.modelNames()
  assert.equal(log.entries.length, 3)
})

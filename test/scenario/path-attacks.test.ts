// Names that try to lead out: in keys of object stores, entries of archives, files of load requests, names of models and
// fields of configurations. Beside every root lies a canary; nothing may read it, write it, or make anything next to it.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { pack } from 'tar-stream'
import { SystemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { MemoryLog } from '../fakes/memory-log.ts'
import { ServerError } from '../../src/base/server-error.ts'
import { emptyModelConfig } from '../../src/config/model-config.ts'
import { BlobCache } from '../../src/repository/cloud/blob-cache.ts'
import { CloudStore } from '../../src/repository/cloud/cloud-store.ts'
import type { ObjectStore, StoredObject } from '../../src/repository/cloud/object-store.ts'
import { ObjectTree } from '../../src/repository/cloud/object-tree.ts'
import { relativePathProblem } from '../../src/repository/cloud/safe-name.ts'
import { defaultRetry } from '../../src/repository/cloud/transient-retry.ts'
import { Turnstile } from '../../src/base/turnstile.ts'
import { unpackArchive } from '../../src/repository/cloud/unpack-archive.ts'
import { readInitialStates } from '../../src/repository/initial-states.ts'
import { readLabels } from '../../src/repository/labels.ts'
import { ModelRepository } from '../../src/repository/model-repository.ts'
import { LocalStore } from '../../src/repository/local-store.ts'
import { parseModelConfigText } from '../../src/repository/text-format-reader.ts'
import { writeUploadedModel } from '../../src/repository/uploaded-models.ts'

const canaryText = 'the canary sings'
let sandbox = ''
/** What lies in the sandbox beside the roots that tests may write to. */
let outside: string[] = []

before(async () => {
  sandbox = await mkdtemp(path.join(tmpdir(), 'galatea-attacks-'))
  await mkdir(path.join(sandbox, 'repository', 'm', '1'), { recursive: true })
  await writeFile(path.join(sandbox, 'canary'), canaryText)
  await mkdir(path.join(sandbox, 'canaries', '1'), { recursive: true })
  await writeFile(path.join(sandbox, 'canaries', '1', 'model.py'), canaryText)
  await writeFile(path.join(sandbox, 'canaries', 'config.pbtxt'), 'backend: "identity"')
  outside = await listing()
})

after(() => rm(sandbox, { recursive: true, force: true }))

const listing = async (): Promise<string[]> => {
  const all = await readdir(sandbox, { recursive: true })
  return all.filter((name) => !/^(repository|cache|uploads)(\/|$)|\.tar$/.test(name)).sort()
}

async function assertUntouched(): Promise<void> {
  assert.deepEqual(await listing(), outside)
  assert.equal(await readFile(path.join(sandbox, 'canary'), 'utf8'), canaryText)
}

/** Pieces that make a path lead out, alone or together, written in every way that somebody might decode. */
const pieces = [
  '..', '.', '', '/', '\\', '\0', '%2e%2e', '%252e%252e', '%2f', '%5c', '..%2f', '..%c0%af', '\u002e\u002e\u2215',
  '\uff0e\uff0e', '\ufffd\ufffd', '..\\', '....//', '.. ', ' ..', '...', '~', 'C:', '\\\\host', 'file:', '//', '\u0000..',
  'canary', 'canaries', 'm', '1', 'model.py', 'con', 'a'.repeat(300), '..;', '\n', '\u202e', '..\u200b', '\ud800',
] // prettier-ignore
const separators = ['/', '\\', '', '//', '/./', '%2f']

const hostileName = fc
  .array(fc.tuple(fc.constantFrom(...pieces), fc.constantFrom(...separators)), { minLength: 1, maxLength: 7 })
  .chain((parts) => {
    const joined = parts.map(([piece, separator]) => piece + separator).join('')
    const absolute = path.join(sandbox, 'canary')
    return fc.constantFrom(
      joined,
      joined.replace(/[/\\]$/, ''),
      `/${joined}`,
      `1/${joined}`,
      absolute,
      `../canary${joined}`,
    )
  })

const climbing = fc
  .tuple(fc.integer({ min: 1, max: 9 }), fc.constantFrom('../', '..\\', './../', '%2e%2e/', 'm/../../', '1/../../../'))
  .map(([times, step]) => `${step.repeat(times)}canary`)

const anyName = fc.oneof(hostileName, climbing, fc.string({ unit: 'binary', maxLength: 40 }))

const runs = (numRuns: number): fc.Parameters<unknown> => ({ numRuns })

const isInside = (root: string, file: string): boolean => file.startsWith(root + path.sep)

test('a path that is let through stays below its folder on every system', () => {
  fc.assert(
    fc.property(anyName, (name) => {
      if (relativePathProblem(name) !== null) return
      assert.ok(isInside('/some/root', path.posix.resolve('/some/root', name)), name)
      assert.ok(path.win32.resolve('C:\\some\\root', name).startsWith('C:\\some\\root\\'), name)
      assert.equal(path.posix.normalize(name), name)
    }),
    runs(3000),
  )
})

/** A store that answers with whatever keys it is given. */
function hostileStore(keys: readonly string[], folders: readonly string[]): ObjectStore {
  const objects = keys.map((key): StoredObject => ({ key, sizeBytes: 3, tag: '"t"', md5: null }))
  return {
    identity: JSON.stringify(keys),
    folders: () => Promise.resolve([...folders]),
    objects: () => Promise.resolve(objects),
    read: async function* read() {
      yield await Promise.resolve(Buffer.from('abc'))
    } as unknown as ObjectStore['read'],
    close: () => undefined,
  }
}

describe('object stores', () => {
  test('keys and folders that lead out are refused; the others become files below the view', async () => {
    const cache = await BlobCache.open(silentLog, path.join(sandbox, 'cache'), Infinity)
    const clock = new SystemClock()
    const settings = { retry: defaultRetry, stallMs: 5000 }
    let count = 0
    await fc.assert(
      fc.asyncProperty(anyName, anyName, async (name, folder) => {
        const root = `s3://bucket/${++count}`
        const object = hostileStore([`m/${name}`, 'm/config.pbtxt'], [`${folder}/`, 'm/'])
        const parts = { clock, log: silentLog, cache, turnstile: new Turnstile(2) }
        const tree = new ObjectTree(
          { clock, log: silentLog, cache },
          settings,
          { first: object, open: () => Promise.resolve(object) },
          { prefix: '', path: root },
        )
        const openParts = () => Promise.resolve({ ...parts, openTree: () => Promise.resolve(tree) })
        const store = new CloudStore({ log: silentLog, local: new LocalStore(), openParts }, () => true)
        for (const { name: model } of await store.list(root, '')) {
          assert.ok(isInside('/r', path.resolve('/r', model)) && !model.includes('/'), model)
        }
        try {
          await store.list(root, 'm')
        } catch (reason) {
          assert.ok(reason instanceof ServerError, String(reason))
          return
        }
        const place = await store.localise(root, 'm')
        assert.ok(isInside(cache.lease.directory, place))
      }),
      runs(700),
    )
    await assertUntouched()
    for (const entry of await readdir(path.join(sandbox, 'cache'))) {
      assert.match(entry, /^(blobs|sources|partial|leases)$/)
    }
    await cache.close()
  })
})

type Entry = { readonly name: string; readonly type: 'file' | 'symlink' | 'link' | 'fifo'; readonly linkname: string }

async function archiveOf(entries: readonly Entry[]): Promise<string> {
  const archive = pack()
  for (const { name, type, linkname } of entries) {
    if (type === 'file') archive.entry({ name }, 'abc')
    else archive.entry({ name, type, linkname })
  }
  archive.finalize()
  const file = path.join(sandbox, 'attack.tar')
  await writeFile(file, Buffer.concat(await Array.fromAsync(archive as unknown as AsyncIterable<Buffer>)))
  return file
}

describe('archives', () => {
  const limits = { maxEntries: 100, maxUnpackedBytes: 1e6 }
  const entry = fc.record({
    name: fc.oneof({ weight: 3, arbitrary: anyName }, fc.constantFrom('m/config.pbtxt', 'm/1/model.py', './m/a')),
    type: fc.constantFrom('file', 'symlink', 'link', 'fifo'),
    linkname: fc.oneof(anyName, fc.constantFrom('config.pbtxt', '/etc/passwd', '../../canary')),
  }) as fc.Arbitrary<Entry>

  test('what is unpacked has plain names, once each, and only content of the archive', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 4 }), async (entries) => {
        let file: string
        try {
          file = await archiveOf(entries.map((each) => ({ ...each, name: each.name || 'x' })))
        } catch {
          // Names that the writer itself cannot write.
          return
        }
        const keep = async (content: AsyncIterable<Uint8Array>): Promise<{ sha256: string; sizeBytes: number }> => {
          const bytes = Buffer.concat(await Array.fromAsync(content))
          return { sha256: bytes.toString(), sizeBytes: bytes.length }
        }
        try {
          const files = await unpackArchive(file, 'attack.tar', limits, keep)
          assert.equal(new Set(files.map((each) => each.path)).size, files.length)
          for (const each of files) {
            assert.equal(relativePathProblem(each.path), null)
            assert.match(each.sha256, /^(abc)?$/)
          }
        } catch (reason) {
          assert.ok(reason instanceof ServerError && reason.code === 'INVALID_ARG', String(reason))
        }
      }),
      runs(700),
    )
    await assertUntouched()
  })
})

describe('load requests', () => {
  test('files are written below the folder of the upload, or not at all', async () => {
    const uploads = path.join(sandbox, 'uploads')
    await mkdir(uploads)
    const { TMPDIR } = process.env
    process.env['TMPDIR'] = uploads
    try {
      await fc.assert(
        fc.asyncProperty(anyName, fc.oneof(anyName, fc.constant('m')), async (file, name) => {
          try {
            const upload = await writeUploadedModel(name, new Map([[file, Buffer.from('x')]]))
            assert.ok(isInside(uploads, upload.root))
            const written = await readdir(uploads, { recursive: true, withFileTypes: true })
            for (const each of written) if (each.isFile()) assert.ok(isInside(upload.root, each.parentPath))
            await upload.remove()
          } catch (reason) {
            // What the file system itself refuses, such as a name that is too long, was taken away again.
            assert.ok(reason instanceof ServerError || (reason as NodeJS.ErrnoException).code !== undefined)
          }
          assert.deepEqual(await readdir(uploads), [])
        }),
        runs(900),
      )
    } finally {
      if (TMPDIR === undefined) delete process.env['TMPDIR']
      else process.env['TMPDIR'] = TMPDIR
    }
    await assertUntouched()
  })

  test('a name of a model never leads to a folder outside the repository', async () => {
    const root = path.join(sandbox, 'repository')
    const log = new MemoryLog()
    const options = { roots: [root], modelConfigName: '', isAutoCompleteDisabled: false }
    const repository = new ModelRepository({ log, store: new LocalStore() }, options)
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyName, fc.constantFrom('../canaries', 'm/../../canaries')), async (name) => {
        const polled = await repository.pollOne(name)
        assert.ok(polled === null || polled.error !== null || polled.name === 'm', name)
      }),
      runs(600),
    )
  })
})

describe('configurations', () => {
  test('fields that name files read nothing outside the model folder', async () => {
    const folder = path.join(sandbox, 'repository', 'm')
    await symlink(path.join(sandbox, 'canary'), path.join(folder, 'linked')).catch(() => undefined)
    const names = fc.oneof(anyName, fc.constantFrom('linked', '../linked', '../../canary', '../../../canary'))
    await fc.assert(
      fc.asyncProperty(names, async (name) => {
        const labelled = emptyModelConfig()
        labelled.output.push({ ...firstOutput(), labelFilename: name })
        const labels = await readLabels(labelled, folder).catch(() => new Map<string, string[]>())
        assert.ok(![...labels.values()].flat().includes(canaryText), name)
        const states = await readInitialStates(configWithState(name), folder).catch(() => new Map<string, Uint8Array>())
        for (const bytes of states.values()) assert.notEqual(Buffer.from(bytes).toString(), canaryText)
      }),
      runs(600),
    )
  })

  test('a model file outside the version folder is refused before any backend sees it', async () => {
    const root = path.join(sandbox, 'repository')
    const options = { roots: [root], modelConfigName: '', isAutoCompleteDisabled: false }
    const repository = new ModelRepository({ log: silentLog, store: new LocalStore() }, options)
    const model = path.join(root, 'named')
    await mkdir(path.join(model, '1', 'deep'), { recursive: true })
    await symlink(path.join(sandbox, 'canaries'), path.join(model, '1', 'deep', 'way'))
    const names = fc.oneof(anyName, fc.constantFrom('deep/way/1/model.py', '../../../canaries/1/model.py'))
    await fc.assert(
      fc.asyncProperty(names, async (name) => {
        const config = emptyModelConfig()
        config.backend = 'python'
        config.defaultModelFilename = name
        const polled = await repository.pollOne('named', config)
        assert.ok(polled !== null)
        if (polled.error !== null) return
        const file = path.resolve(polled.modelDirectory, '1', polled.config.defaultModelFilename)
        assert.ok(isInside(path.join(model, '1'), file) && !file.includes('/way'), name)
      }),
      runs(600),
    )
    await rm(model, { recursive: true })
  })
})

const firstOutput = (): ReturnType<typeof emptyModelConfig>['output'][number] => {
  const [output] = parseModelConfigText('output { name: "o" data_type: TYPE_FP32 dims: 1 }').config.output
  assert.ok(output !== undefined)
  return output
}

function configWithState(dataFile: string): ReturnType<typeof emptyModelConfig> {
  const text = `sequence_batching { state { input_name: "s" output_name: "t" data_type: TYPE_FP32 dims: 1
    initial_state { name: "i" data_type: TYPE_FP32 dims: 1 data_file: "x" } } }`
  const { config } = parseModelConfigText(text)
  const state = config.sequenceBatching?.state[0]?.initialState[0]
  assert.ok(state !== undefined)
  Object.assign(state, { dataFile })
  return config
}

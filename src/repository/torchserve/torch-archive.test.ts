import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { pack, type Header } from 'tar-stream'
import { prepareTorchArchive } from './torch-archive.ts'

type Entry = Partial<Header> & { readonly name: string; readonly content?: string }

const manifestOf = (model: object): Entry => ({
  name: 'MAR-INF/MANIFEST.json',
  content: JSON.stringify({ model: { modelName: 'm', handler: 'h.py', ...model } }),
})
const plain: readonly Entry[] = [manifestOf({}), { name: 'h.py', content: 'code' }]

async function tarOf(entries: readonly Entry[]): Promise<Buffer> {
  const archive = pack()
  for (const { content, ...header } of entries) {
    if (header.type === undefined) archive.entry(header, content ?? '')
    else archive.entry(header)
  }
  archive.finalize()
  return Buffer.concat(await Array.fromAsync(archive as unknown as AsyncIterable<Buffer>))
}

describe('an archive of TorchServe', () => {
  const limits = { maxEntries: 20, maxUnpackedBytes: 4000 }
  const settings = { limits, python: '', given: {}, defaults: {} }
  let root = ''
  let count = 0
  before(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'galatea-torch-archive-'))
  })
  after(() => rm(root, { recursive: true, force: true }))

  const placeOf = (name: string): string => path.join(root, `${count++}-${name}`)

  async function unpack(file: string): Promise<string> {
    const target = placeOf('unpacked')
    await mkdir(target)
    await prepareTorchArchive(file, target, settings)
    return target
  }
  async function unpackTar(entries: readonly Entry[], after = Buffer.alloc(0)): Promise<string> {
    const file = placeOf('some.tar.gz')
    await writeFile(file, gzipSync(Buffer.concat([await tarOf(entries), after])))
    return unpack(file)
  }
  async function folderOf(entries: readonly Entry[]): Promise<string> {
    const folder = placeOf('folder')
    for (const { name, content } of entries) {
      await mkdir(path.dirname(path.join(folder, name)), { recursive: true })
      await writeFile(path.join(folder, name), content ?? '')
    }
    return folder
  }

  test('is a tar file, with links to its own files as copies, or a folder', async () => {
    const link: Entry = { name: 'again.py', type: 'symlink', linkname: 'h.py' }
    const unpacked = [await unpackTar([...plain, link]), await unpack(await folderOf([...plain, { name: 'a/b/c' }]))]
    for (const target of unpacked) assert.equal(await readFile(path.join(target, 'h.py'), 'utf8'), 'code')
    assert.equal(await readFile(path.join(unpacked[0] as string, 'again.py'), 'utf8'), 'code')
    assert.deepEqual(await readdir(path.join(unpacked[1] as string, 'a/b')), ['c'])
  })

  test('may have a folder in the place of our own settings', async () => {
    const target = placeOf('unpacked')
    await mkdir(target)
    const file = placeOf('some.tar')
    await writeFile(file, await tarOf([...plain, { name: 'MAR-INF/galatea.json/x' }]))
    await prepareTorchArchive(file, target, settings)
    assert.match(await readFile(path.join(target, 'MAR-INF/galatea.json'), 'utf8'), /"batchSize": 1/)
  })

  test('has the name of its file and the handler of the call where it has no manifest', async () => {
    const target = placeOf('unpacked')
    await mkdir(target)
    const file = path.join(placeOf('store'), 'some-model.tar')
    await mkdir(path.dirname(file))
    await writeFile(file, await tarOf([{ name: 'top/h.py', content: 'code' }]))
    const asked = { ...settings, given: { handler: 'h.py' } }
    const { archive, serving } = await prepareTorchArchive(file, target, asked)
    assert.deepEqual([archive.name, archive.version, serving.handler], ['some_model', '1.0', 'h.py'])
  })

  test('may have a folder with the name of a Python file', async () => {
    const target = await unpack(await folderOf([...plain, { name: 'x.py/y' }]))
    assert.deepEqual(await readdir(path.join(target, 'x.py')), ['y'])
  })

  test('may be a folder around the one folder that has everything', async () => {
    const folder = await folderOf(plain.map((entry) => ({ ...entry, name: `top/${entry.name}` })))
    assert.equal(await readFile(path.join(await unpack(folder), 'h.py'), 'utf8'), 'code')
  })

  test("takes numbers of the server's settings for its version, and its own come before them", async () => {
    const target = placeOf('unpacked')
    await mkdir(target)
    const known = { m: { '1.0': { minWorkers: 3, batchSize: 4, maxBatchDelay: 'soon' } } }
    const asked = { ...settings, name: 'm', settings: known, defaults: { batchSize: 2, workers: 1 } }
    const { serving } = await prepareTorchArchive(await folderOf(plain), target, asked)
    assert.deepEqual([serving.workers, serving.batchSize, serving.maxBatchDelayMs], [3, 4, 100])
  })

  const manyLinks = Array.from({ length: 5 }, (_, i): Entry => ({ name: `l${i}`, type: 'symlink', linkname: 'big' }))
  const refusals: [what: string, unpack: () => Promise<string>, reason: RegExp][] = [
    [
      'links that copy a large file often',
      () => unpackTar([...plain, { name: 'big', content: 'x'.repeat(1000) }, ...manyLinks]),
      /copies that its links are it has more than 4000 bytes/,
    ],
    [
      'a file that is a folder',
      () => unpackTar([...plain, { name: 'a', content: 'x' }, { name: 'a/b', content: 'y' }]),
      /"a" is in it both as a file and as a folder/,
    ],
    ['zeros without end behind the entries', () => unpackTar(plain, Buffer.alloc(1_000_000)), /heads included/],
    [
      'a .tar.gz whose end is missing',
      async () => {
        const file = placeOf('short.tar.gz')
        await writeFile(file, gzipSync(await tarOf(plain)).subarray(0, -12))
        return unpack(file)
      },
      /damaged: unexpected end of file/,
    ],
    [
      'a file where the others wait to be placed',
      () => unpackTar([...plain, { name: '.parts/0', content: '{}' }]),
      /an entry with the name \.parts/,
    ],
    [
      'a pipe',
      async () => {
        const file = placeOf('pipe.mar')
        execFileSync('mkfifo', [file])
        return unpack(file)
      },
      /no file and no folder/,
    ],
    [
      'a folder with a link that leads around in it',
      async () => {
        const folder = await folderOf(plain)
        await symlink('.', path.join(folder, 'l'))
        return unpack(folder)
      },
      /l is a link, a pipe or a device/,
    ],
    [
      'a folder with many files',
      async () => unpack(await folderOf([...plain, ...Array.from({ length: 20 }, (_, i) => ({ name: `f/${i}` }))])),
      /more than 20 entries/,
    ],
    ['a long modelName', () => unpackTar([manifestOf({ modelName: 'm'.repeat(256) })]), /at most 255 letters/],
    ['a long modelVersion', () => unpackTar([manifestOf({ modelVersion: '1'.repeat(256) })]), /modelVersion.* 255/],
    ['lines in the modelVersion', () => unpackTar([manifestOf({ modelVersion: '1\n2' })]), /control characters/],
    ['a manifest without a handler', () => unpackTar([{ name: 'MAR-INF/MANIFEST.json', content: '[]' }]), /modelName/],
  ]
  for (const [what, act, reason] of refusals) {
    test(`is refused: ${what}`, async () => {
      await assert.rejects(act(), (error: Error & { code: string }) => {
        assert.equal(error.code, 'INVALID_ARG')
        assert.match(error.message, reason)
        return true
      })
    })
  }
})

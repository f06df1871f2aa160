import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { test, type TestContext } from 'node:test'
import { ContentIndex } from './content-index.ts'
import type { LayoutEntry } from './model-layout.ts'
import type { FoundModel } from './model-repository.ts'
import { polledContents, versionContent } from './version-content.ts'

async function folder(context: TestContext): Promise<string> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-content-'))
  context.after(() => rm(root, { recursive: true }))
  await mkdir(path.join(root, 'sub/__pycache__'), { recursive: true })
  await writeFile(path.join(root, 'model.py'), 'print(1)')
  await writeFile(path.join(root, 'sub/b'), 'b')
  await writeFile(path.join(root, 'sub/__pycache__/x.pyc'), 'made by Python')
  await writeFile(path.join(root, 'Ärger'), 'a name that is not ASCII')
  return root
}

test("the hash is what sha256sum's lines hash to, and what Python writes while it runs does not count", async (context) => {
  const root = await folder(context)
  const command =
    "find . -name __pycache__ -prune -o -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"
  const { stdout } = await promisify(execFile)('sh', ['-c', command], { cwd: root })
  assert.deepEqual(await versionContent(new ContentIndex(), root), {
    hash: stdout.slice(0, 64),
    fileCount: 3,
    byteSize: 8 + 1 + 24,
  })
})

test('the files of a model are looked through once for all of its versions', async () => {
  const versions = Array.from({ length: 100 }, (_, i) => String(i + 1))
  const file = { kind: 'file', sizeBytes: 1, contentId: null } as LayoutEntry
  let looks = 0
  class CountingMap extends Map<string, LayoutEntry> {
    override *[Symbol.iterator](): MapIterator<[string, LayoutEntry]> {
      for (const entry of this.entries()) {
        looks++
        yield entry
      }
      return undefined
    }
  }
  const files = new CountingMap([...versions, '10x', 'config.pbtxt'].map((name) => [`${name}/model.onnx`, file]))
  const found = polledContents(new ContentIndex(), { files, modelDirectory: '/m' } as unknown as FoundModel, versions)
  assert.deepEqual([looks, found.size], [files.size, 100])
})

test('a touched file keeps the hash, a changed byte or name does not', async (context) => {
  const root = await folder(context)
  const contents = new ContentIndex()
  const before = await versionContent(contents, root)
  await utimes(path.join(root, 'model.py'), 1, 1)
  assert.deepEqual(await versionContent(contents, root), before)
  await writeFile(path.join(root, 'model.py'), 'print(2)')
  const changed = await versionContent(contents, root)
  assert.notEqual(changed?.hash, before?.hash)
  await writeFile(path.join(root, 'model.py'), 'print(1)')
  assert.deepEqual(await versionContent(contents, root), before)
})

test('a link that leads nowhere makes the content unknown, a folder that is not there is empty', async (context) => {
  const root = await folder(context)
  assert.equal((await versionContent(new ContentIndex(), path.join(root, 'nothing')))?.fileCount, 0)
  await symlink('/no/such/file', path.join(root, 'dangling'))
  assert.equal(await versionContent(new ContentIndex(), root), null)
})

test('a large file that waits to be read in the background is read once', async (context) => {
  const root = await folder(context)
  const large = path.join(root, 'large')
  await writeFile(large, Buffer.alloc(3 * 1024 * 1024, 7))
  const contents = new ContentIndex()
  const { stat } = await import('node:fs/promises')
  assert.match(await contents.identify(large, await stat(large), false), /^stat /)
  const hash = await contents.hash(large)
  assert.match(hash ?? '', /^[0-9a-f]{64}$/)
  await contents.settled()
  assert.equal(await contents.hash(large), hash)
})

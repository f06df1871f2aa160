import assert from 'node:assert/strict'
import { appendFile, copyFile, mkdir, open, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'node:test'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { ContentIndex } from './content-index.ts'
import { ModelRepository } from './model-repository.ts'
import { LocalStore } from './local-store.ts'

const config =
  'backend: "identity" input { name: "A" data_type: TYPE_INT32 dims: 1 } output { name: "A" data_type: TYPE_INT32 dims: 1 }'
const large = 'x'.repeat(3 * 1024 * 1024)

async function repositoryUnderTest(context: test.TestContext, weights: string) {
  const { root, remove } = await temporaryRepository({ 'm/config.pbtxt': config, 'm/1/weights.bin': weights })
  context.after(remove)
  const contents = new ContentIndex()
  const options = { roots: [root], modelConfigName: '', isAutoCompleteDisabled: false }
  const repository = new ModelRepository({ log: new MemoryLog(), store: new LocalStore(contents) }, options)
  const fingerprint = async (): Promise<string> => {
    const model = await repository.pollOne('m')
    assert.ok(model !== null && model.error === null)
    return model.fingerprint
  }
  return { root, file: join(root, 'm/1/weights.bin'), repository, contents, fingerprint }
}

for (const [size, weights] of [
  ['small', 'weights'],
  ['large', large],
] as const) {
  test(`a ${size} file that was touched, or copied anew with the same bytes, is the same file`, async (context) => {
    const { file, contents, fingerprint } = await repositoryUnderTest(context, weights)
    const before = await fingerprint()
    await contents.settled()
    await utimes(file, new Date(0), new Date(0))
    assert.equal(await fingerprint(), before)
    await copyFile(file, `${file}.new`)
    await rename(`${file}.new`, file)
    assert.equal(await fingerprint(), before)
  })

  test(`one changed byte of a ${size} file is found although size and time of change are as before`, async (context) => {
    const { file, contents, fingerprint } = await repositoryUnderTest(context, weights)
    const before = await fingerprint()
    await contents.settled()
    const { atime, mtime } = await stat(file)
    const handle = await open(file, 'r+')
    await handle.write('y', 0)
    await handle.close()
    await utimes(file, atime, mtime)
    assert.notEqual(await fingerprint(), before)
  })
}

test('a link that is turned to a folder with the same bytes changes nothing, to other bytes it does', async (context) => {
  const { root, fingerprint } = await repositoryUnderTest(context, 'weights')
  await rm(join(root, 'm/1'), { recursive: true })
  const swap = async (release: string): Promise<void> => {
    await symlink(`../${release}`, join(root, 'm/1.next'))
    await rename(join(root, 'm/1.next'), join(root, 'm/1'))
  }
  for (const [release, text] of Object.entries({ r1: 'one', r2: 'one', r3: 'two' })) {
    await mkdir(join(root, release))
    await writeFile(join(root, release, 'weights.bin'), text)
  }
  await swap('r1')
  const first = await fingerprint()
  await swap('r2')
  assert.equal(await fingerprint(), first)
  await swap('r3')
  assert.notEqual(await fingerprint(), first)
})

test('a large file that is still growing is not read again at every look', async (context) => {
  const { file, repository, contents } = await repositoryUnderTest(context, large)
  await repository.poll()
  await contents.settled()
  const seen = new Set<string>()
  for (let look = 0; look < 3; look++) {
    await appendFile(file, 'more')
    const [model] = await repository.poll()
    assert.ok(model !== undefined && model.error === null)
    seen.add(model.fingerprint)
  }
  assert.equal(seen.size, 3, 'each look sees another file, so none of them is loaded')
})

test('a file that goes while it is looked at leaves a model that can still be read', async (context) => {
  const { file, repository } = await repositoryUnderTest(context, 'weights')
  const looks = repository.pollOne('m')
  await rm(file)
  const model = await looks
  assert.ok(model !== null)
})

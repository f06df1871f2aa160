import assert from 'node:assert/strict'
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { joinInside, realPathInside } from './safe-path.ts'

describe('a path never leaves its root', () => {
  let work = ''
  let root = ''
  before(async () => {
    work = await realpath(await mkdtemp(join(tmpdir(), 'galatea-path-')))
    root = join(work, 'root')
    await mkdir(join(root, 'model', '..2024'), { recursive: true })
    await mkdir(join(work, 'root-beside'))
    await writeFile(join(work, 'secret'), '')
    await writeFile(join(work, 'root-beside', 'file'), '')
    await writeFile(join(root, 'model', '..2024', 'config.pbtxt'), '')
    await symlink('..2024', join(root, 'model', '..data'))
    await symlink('..data/config.pbtxt', join(root, 'model', 'config.pbtxt'))
    await symlink(join(work, 'secret'), join(root, 'absolute'))
    await symlink('../secret', join(root, 'relative'))
    await symlink('../root-beside', join(root, 'beside'))
    await symlink('nowhere', join(root, 'dangling'))
    await symlink('root', join(work, 'linked-root'))
  })
  after(() => rm(work, { recursive: true, force: true }))

  for (const path of ['../secret', 'model/../../secret', '/etc/passwd', 'a\0b', '..\\secret', '..']) {
    test(`refused by its name: ${JSON.stringify(path)}`, () => {
      assert.throws(() => joinInside(root, path), { code: 'INVALID_ARG', message: /leads out of/ })
    })
  }

  for (const path of ['absolute', 'relative', 'beside', 'beside/file']) {
    test(`refused by where a link leads: ${path}`, async () => {
      await assert.rejects(realPathInside(root, path), {
        code: 'INVALID_ARG',
        message: /leads out of .* it is a link to/,
      })
    })
  }

  test('links that stay inside are followed, as Kubernetes makes them', async () => {
    assert.equal(await realPathInside(root, 'model/config.pbtxt'), join(root, 'model', '..2024', 'config.pbtxt'))
  })

  test('the root may be a link itself', async () => {
    const linked = join(work, 'linked-root')
    assert.equal(await realPathInside(linked, 'model/config.pbtxt'), join(root, 'model', '..2024', 'config.pbtxt'))
    assert.equal(await realPathInside(linked, ''), root)
  })

  test('what is not there is null, a dangling link too', async () => {
    assert.equal(await realPathInside(root, 'missing/file'), null)
    assert.equal(await realPathInside(root, 'dangling'), null)
    assert.equal(await realPathInside(join(work, 'no-root'), 'file'), null)
  })
})

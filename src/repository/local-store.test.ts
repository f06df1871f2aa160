import assert from 'node:assert/strict'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import { LocalStore } from './local-store.ts'

test('a listing tells what each entry is, and of a link what it leads to', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/file': 'abc', 'm/folder/': '' })
  context.after(remove)
  await symlink('folder', join(root, 'm', 'inside'))
  await symlink('file', join(root, 'm', 'linked'))
  await symlink('/etc/hostname', join(root, 'm', 'outside'))
  await symlink('nowhere', join(root, 'm', 'dangling'))
  const entries = await new LocalStore().list(root, 'm')
  assert.deepEqual(
    entries.map(({ name, kind, isLink, sizeBytes }) => [name, kind, isLink, sizeBytes]),
    [
      ['dangling', 'other', true, 0],
      ['file', 'file', false, 3],
      ['folder', 'directory', false, 0],
      ['inside', 'directory', true, 0],
      ['linked', 'file', true, 3],
      ['outside', 'outside', true, 0],
    ],
  )
  assert.ok((entries[1]?.modifiedMs ?? 0) > 0)
})

test('what is not there is told: NOT_FOUND for a listing or a text, null for a stat', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/file': 'abc' })
  context.after(remove)
  const store = new LocalStore()
  await assert.rejects(store.list(root, 'nobody'), { code: 'NOT_FOUND' })
  await assert.rejects(store.readText(root, 'm/nothing', 10), { code: 'NOT_FOUND' })
  assert.equal(await store.stat(root, 'm/nothing'), null)
  assert.equal((await store.stat(root, 'm'))?.isDirectory, true)
})

test('a text longer than the limit is refused, saying both sizes', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/file': 'abc' })
  context.after(remove)
  const store = new LocalStore()
  assert.equal(await store.readText(root, 'm/file', 3), 'abc')
  await assert.rejects(store.readText(root, 'm/file', 2), {
    code: 'INVALID_ARG',
    message: /has 3 bytes, at most 2 are read/,
  })
})

test('nothing outside the root is listed, read or looked at', async (context) => {
  const { root, remove } = await temporaryRepository({ 'a/m/': '', 'b/secret': 'x' })
  context.after(remove)
  const store = new LocalStore()
  for (const path of ['../b', '../b/secret', '/etc']) {
    await assert.rejects(store.list(join(root, 'a'), path), { code: 'INVALID_ARG' })
    await assert.rejects(store.readText(join(root, 'a'), path, 10), { code: 'INVALID_ARG' })
    await assert.rejects(store.stat(join(root, 'a'), path), { code: 'INVALID_ARG' })
  }
})

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { ContentIndex } from './content-index.ts'
import { LocalStore } from './local-store.ts'
import { ModelRepository } from './model-repository.ts'

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

test('a pipe is told apart and never opened', { skip: process.platform === 'win32' }, async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/config.pbtxt': 'backend: "identity"', 'm/1/': '' })
  context.after(remove)
  execFileSync('mkfifo', [join(root, 'm/1/model.onnx')])
  const store = new LocalStore(new ContentIndex())
  assert.equal((await store.list(root, 'm/1'))[0]?.kind, 'device')
  await assert.rejects(store.readText(root, 'm/1/model.onnx', 10), { code: 'INVALID_ARG', message: /is no file$/ })
  const options = { roots: [root], modelConfigName: '', isAutoCompleteDisabled: false }
  const polled = await new ModelRepository({ log: new MemoryLog(), store }, options).pollOne('m')
  assert.match(
    polled?.error?.message ?? '',
    /model\.onnx' is a pipe or a device, expected a file or a folder: remove it$/,
  )
})

test('a folder of many files is read with few of them open at a time', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/': '' })
  context.after(remove)
  for (let i = 0; i < 300; i++) await writeFile(join(root, 'm', String(i)), 'x')
  let [running, most] = [0, 0]
  const contents = new ContentIndex()
  const identify = contents.identify.bind(contents)
  contents.identify = async (...args) => {
    most = Math.max(most, ++running)
    const id = await identify(...args)
    running--
    return id
  }
  assert.equal((await new LocalStore(contents).list(root, 'm')).length, 300)
  assert.ok(most > 1 && most <= 32, `${most}`)
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

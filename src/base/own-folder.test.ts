import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { silentLog } from './log.ts'
import { newOwnFolder, ownFolderPrefix, removeLeftFolders } from './own-folder.ts'

test('only folders of processes of this machine that have ended are removed', async () => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-stale-'))
  const dead = spawnSync(process.execPath, ['-e', '']).pid
  const stale = [`${await ownFolderPrefix('upload', dead)}abc123`, `${await ownFolderPrefix('weights', dead)}abc123`]
  const kept = [
    `${await ownFolderPrefix('upload')}abc123`,
    `${await ownFolderPrefix('weights')}abc123`,
    `${await ownFolderPrefix('weights', process.ppid)}abc123`,
    `galatea-upload-00000000-${dead}-abc123`,
    'galatea-upload-abc123',
    'galatea-weights-abc123',
    `galatea-other-${(await ownFolderPrefix('upload', dead)).slice('galatea-upload-'.length)}abc123`,
    `my-galatea-upload-${dead}`,
  ]
  for (const name of [...stale, ...kept]) {
    await mkdir(path.join(root, name, 'm', '1'), { recursive: true })
    await writeFile(path.join(root, name, 'm', '1', 'model.py'), 'x')
  }
  // A link of the right name leads elsewhere and stays, with what it leads to.
  const link = `${await ownFolderPrefix('upload', dead)}link`
  await symlink(path.join(root, 'galatea-upload-abc123'), path.join(root, link))
  await removeLeftFolders(silentLog, root)
  assert.deepEqual((await readdir(root)).sort(), [...kept, link].sort())
  assert.deepEqual(await readdir(path.join(root, 'galatea-upload-abc123')), ['m'])
  await removeLeftFolders(silentLog, path.join(root, 'nowhere'))
  await rm(root, { recursive: true })
})

test('a folder of this process is for its user alone', async () => {
  const folder = await newOwnFolder('weights')
  const { mode } = await stat(folder)
  assert.equal(mode & 0o777, 0o700)
  assert.ok(path.basename(folder).startsWith(await ownFolderPrefix('weights')))
  await rm(folder, { recursive: true })
})

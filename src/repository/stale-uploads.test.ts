import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { silentLog } from '../base/log.ts'
import { removeStaleUploads, uploadPrefix } from './stale-uploads.ts'

test('only folders of processes of this machine that have ended are removed', async () => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-stale-'))
  const dead = spawnSync(process.execPath, ['-e', '']).pid
  const stale = `${await uploadPrefix(dead)}abc123`
  const kept = [
    `${await uploadPrefix()}abc123`,
    `${await uploadPrefix(process.ppid)}abc123`,
    `galatea-upload-00000000-${dead}-abc123`,
    'galatea-upload-abc123',
    `my-galatea-upload-${dead}`,
  ]
  for (const name of [stale, ...kept]) {
    await mkdir(path.join(root, name, 'm', '1'), { recursive: true })
    await writeFile(path.join(root, name, 'm', '1', 'model.py'), 'x')
  }
  // A link of the right name leads elsewhere and stays, with what it leads to.
  const link = `${await uploadPrefix(dead)}link`
  await symlink(path.join(root, 'galatea-upload-abc123'), path.join(root, link))
  await removeStaleUploads(silentLog, root)
  assert.deepEqual((await readdir(root)).sort(), [...kept, link].sort())
  assert.deepEqual(await readdir(path.join(root, 'galatea-upload-abc123')), ['m'])
  await removeStaleUploads(silentLog, path.join(root, 'nowhere'))
  await rm(root, { recursive: true })
})

import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { FolderOwner } from './folder-owner.ts'

async function folderOf(t: TestContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-folder-owner-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

test('a folder belongs to the process until its last part has left', async (t) => {
  const folder = await folderOf(t)
  const [jobs, rollouts] = [new FolderOwner(folder), new FolderOwner(folder)]
  await Promise.all([jobs.take(['jobs']), jobs.take(['jobs']), rollouts.take(['rollouts'])])
  await jobs.leave()
  await jobs.leave()
  assert.deepEqual((await readdir(folder)).sort(), ['jobs', 'rollouts', 'server.pid'])
  await rollouts.leave()
  assert.deepEqual((await readdir(folder)).sort(), ['jobs', 'rollouts'])
})

test('a part that writes after it has left takes the folder again, unless another process has it by now', async (t) => {
  const folder = await folderOf(t)
  const owner = new FolderOwner(folder)
  await owner.take([])
  await owner.leave()
  await owner.take([])
  assert.match(await readFile(path.join(folder, 'server.pid'), 'utf8'), new RegExp(`^${process.pid} `))
  await writeFile(path.join(folder, 'server.pid'), '1')
  await owner.leave()
  assert.equal(await readFile(path.join(folder, 'server.pid'), 'utf8'), '1', 'the mark of another process stays')
  await assert.rejects(owner.take([]), /belongs to the server with the process id 1/)
})

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
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

/** Takes each folder that it is told of, and says what came of it. */
const server = `
  import { createInterface } from 'node:readline'
  import { FolderOwner } from ${JSON.stringify(new URL('folder-owner.ts', import.meta.url).href)}
  console.log('ready')
  for await (const folder of createInterface({ input: process.stdin })) {
    console.log(await new FolderOwner(folder).take(['jobs']).then(() => 'mine', ({ message }) => message))
  }`

test('of servers that start at the same time one has the folder, whether one that was killed had it before or none', async (t) => {
  const root = await folderOf(t)
  const servers = [1, 2, 3].map(() => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', server], { stdio: ['pipe', 'pipe', 'inherit'] })
    t.after(() => child.kill())
    return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() }
  })
  const said = (): Promise<string[]> =>
    Promise.all(servers.map(async ({ lines }) => String((await lines.next()).value)))
  await said()
  for (let round = 0; round < 60; round++) {
    const folder = path.join(root, String(round))
    if (round % 2 === 0) {
      await mkdir(folder)
      await writeFile(path.join(folder, 'server.pid'), String(2 ** 22 + 1))
    }
    for (const { child } of servers) child.stdin.write(`${folder}\n`)
    const answers = await said()
    assert.equal(answers.filter((answer) => answer === 'mine').length, 1, answers.join('; '))
    assert.equal(answers.filter((answer) => /^the state folder '.*' belongs to /.test(answer)).length, 2)
    assert.deepEqual((await readdir(folder)).sort(), ['jobs', 'server.pid'])
  }
})

import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { FileReleaseStore } from './file-release-store.ts'
import { noPins, type ReleaseRecord } from './release-record.ts'

const record = (name: string, step: number): ReleaseRecord =>
  ({ name, plan: { kind: 'rollout' }, state: { step } }) as unknown as ReleaseRecord

async function withFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-store-'))
  try {
    await body(path.join(folder, 'state'))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

test('what was written last is read, whatever the names are made of', () =>
  withFolder(async (folder) => {
    const store = new FileReleaseStore(new MemoryLog(), folder)
    assert.deepEqual(await store.read(), { records: [], pins: [] })
    await Promise.all([1, 2, 3].map((step) => store.saveRecord(record('a', step))))
    await store.savePins(noPins('../ns::m', '/models'))
    await store.close()
    const again = await new FileReleaseStore(new MemoryLog(), folder).read()
    assert.deepEqual(again.records, [record('a', 3)])
    assert.deepEqual(again.pins, [noPins('../ns::m', '/models')])
    assert.deepEqual(await readdir(path.join(folder, 'models')), ['%2E%2E%2Fns%3A%3Am.json'])
  }))

test('models whose long names begin alike have pins of their own', () =>
  withFolder(async (folder) => {
    const store = new FileReleaseStore(new MemoryLog(), folder)
    const all = ['車', '輪'].map((end) => ({ ...noPins('画像分類'.repeat(20) + end, '/models'), standard: end }))
    await store.savePins(all[0] as (typeof all)[0])
    const [first = ''] = await readdir(path.join(folder, 'models'))
    await writeFile(
      path.join(folder, 'models', `${first.slice(0, 200)}.json`),
      JSON.stringify({ ...all[0], standard: 'old' }),
    )
    await store.savePins(all[1] as (typeof all)[0])
    const { pins } = await new FileReleaseStore(new MemoryLog(), folder).read()
    assert.deepEqual(pins.map(({ standard }) => standard).sort(), ['車', '輪'])
  }))

test('a file that is no record is left out and named in the log', () =>
  withFolder(async (folder) => {
    const store = new FileReleaseStore(new MemoryLog(), folder)
    await store.saveRecord(record('a', 1))
    await writeFile(path.join(folder, 'rollouts/b.json'), '{"name":')
    const log = new MemoryLog()
    assert.equal((await new FileReleaseStore(log, folder).read()).records.length, 1)
    assert.match(JSON.stringify(log), /b\.json' cannot be read/)
  }))

test('a folder that another server has is refused, one of a server that was killed is not', () =>
  withFolder(async (folder) => {
    const store = new FileReleaseStore(new MemoryLog(), folder)
    await store.saveRecord(record('a', 1))
    await writeFile(path.join(folder, 'server.pid'), '1')
    const other = new FileReleaseStore(new MemoryLog(), folder)
    await assert.rejects(other.saveRecord(record('a', 2)), /belongs to the server with the process id 1.*--state-dir/)
    await writeFile(path.join(folder, 'server.pid'), String(2 ** 22 + 1))
    await other.saveRecord(record('a', 2))
    // Process 1 runs, and began at another time than the server that had its number before.
    await writeFile(path.join(folder, 'server.pid'), '1 77')
    if (process.platform === 'linux') await new FileReleaseStore(new MemoryLog(), folder).saveRecord(record('a', 3))
  }))

import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { TraceFile } from './trace-file.ts'

test('numbered files that the disk has not taken hold at most 64 MiB; the rest is left out, and the log says so once', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-trace-file-'))
  t.after(() => rm(folder, { recursive: true }))
  const log = new MemoryLog()
  const file = new TraceFile(log, path.join(folder, 'trace'))
  const record = 'x'.repeat(4 * 1024 * 1024)
  for (let i = 0; i < 40; i++) file.appendNumbered([record])
  await file.close()
  assert.equal((await readdir(folder)).length, 16)
  assert.equal(log.entries.filter(({ message }) => message.includes('the disk does not take')).length, 1)
})

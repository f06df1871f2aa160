import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { until } from '../../test/until.ts'
import { useFile } from './use-file.ts'
import { UseHistory } from './use-history.ts'

test('a history is kept every ten seconds and taken up again; a file that is broken is said and left out', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'galatea-use-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const [clock, log] = [new ManualClock(), new MemoryLog()]
  const path = join(folder, 'use-of-tenants.json')
  const open = async (counts: Map<string, number[]>): Promise<UseHistory> => {
    const history = new UseHistory({ clock }, () => new Map(counts))
    await useFile({ clock, log }, folder, 'tenants', history).open()
    return history
  }
  await open(new Map([['web\nm', [1, 2, 3, 4]]]))
  clock.advanceMs(10_000)
  await until(async () => (await readFile(path, 'utf8').catch(() => '')) !== '', 'the file is there')
  const next = await open(new Map())
  assert.deepEqual(next.between(0, Infinity).use, new Map([['web\nm', [1, 2, 3, 4]]]))
  for (const broken of [
    '{',
    '[]',
    '{"keptSinceMs":0,"lastMs":0,"pauses":[],"hours":[[0,[["a",["x"]]]]],"minutes":[]}',
  ]) {
    await writeFile(path, broken)
    assert.deepEqual((await open(new Map())).between(0, Infinity).use, new Map(), broken)
  }
  assert.equal(log.entries.filter(({ message }) => message.includes('cannot be read and begin anew')).length, 3)
})

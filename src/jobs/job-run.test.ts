import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { SystemClock } from '../base/clock.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { until } from '../../test/until.ts'
import { FileInput } from './file-input.ts'
import { FileOutput } from './file-output.ts'
import type { JobItem, JobPosition } from './job-channel.ts'
import { longestLineBytes, type LineAnswer, type LineCall } from './job-line.ts'
import { checkpointLines, JobRun, type RunParts } from './job-run.ts'
import { DiskPieces } from './piece-reader.ts'

async function folderOf(t: { after(end: () => Promise<void>): void }, text: string): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-job-'))
  t.after(() => rm(folder, { recursive: true }))
  await writeFile(path.join(folder, 'in.jsonl'), text)
  return folder
}

const lines = (count: number): string => Array.from({ length: count }, (_, i) => `{"id":"${i}"}\n`).join('')
const good = ({ id }: LineCall): LineAnswer => ({ status: 200, body: Buffer.from(`{"answer":"${id}"}`) })

async function openRun(folder: string, parts: Partial<RunParts>, from: JobPosition | null = null) {
  const counts = { done: 0, failed: 0, dead: 0 }
  let position: JobPosition | null = from
  const input = new FileInput(new DiskPieces([path.join(folder, 'in.jsonl')], path.basename), from)
  const output = await FileOutput.open(path.join(folder, 'out.jsonl'), from?.outputBytes ?? 0)
  const run = new JobRun({
    clock: new SystemClock(),
    input,
    output,
    inferTarget: '/v2/models/m/infer',
    onlyModel: 'm',
    mostCallBytes: 1e6,
    concurrency: 4,
    maxAttempts: 3,
    call: (call) => Promise.resolve(good(call)),
    room: () => Infinity,
    counted: (outcome, count) => (counts[outcome] += count),
    checkpoint: (at) => Promise.resolve(void (position = at)),
    ...parts,
  })
  const close = async (): Promise<void> => void (await Promise.all([input.close(), output.close()]))
  return { run, counts, close, position: () => position }
}

const idsOf = async (folder: string): Promise<string[]> =>
  (await readFile(path.join(folder, 'out.jsonl'), 'utf8')).trim().split('\n').map((line) => (JSON.parse(line) as { id: string }).id) // prettier-ignore

test('answers stand in the order of their lines, whichever call ends first; empty lines are none', async (t) => {
  const folder = await folderOf(t, `${lines(50)}\n   \n{"id":"last"}`)
  let [under, most] = [0, 0]
  const call = async (line: LineCall): Promise<LineAnswer> => {
    most = Math.max(most, ++under)
    await new Promise((resolve) =>
      setTimeout(resolve, (line.body.length * Number(line.id === 'last' ? 0 : line.id)) % 5),
    )
    under--
    return good(line)
  }
  const { run, counts, close } = await openRun(folder, { call })
  assert.equal(await run.run(), true)
  await close()
  assert.deepEqual(await idsOf(folder), [...Array.from({ length: 50 }, (_, i) => String(i)), 'last'])
  assert.deepEqual(counts, { done: 51, failed: 0, dead: 0 })
  assert.equal(most, 4)
})

test('a run that is stopped goes on at its checkpoint, and every line has one answer', async (t) => {
  const count = checkpointLines * 3
  const folder = await folderOf(t, lines(count))
  let seen = 0
  const first = await openRun(folder, {
    call: (line, signal) =>
      ++seen < checkpointLines * 2 + 10 ? Promise.resolve(good(line)) : new Promise((resolve) => signal.addEventListener('abort', () => resolve({ status: 499, body: Buffer.alloc(0) }))), // prettier-ignore
  })
  const ran = first.run.run()
  await until(() => seen >= checkpointLines * 2 + 10, 'the lines to hang')
  first.run.stop()
  assert.equal(await ran, false)
  await first.close()
  // What a crash leaves: an output that is longer than the checkpoint knows.
  const at = first.position()
  assert.ok(at !== null && at.line >= checkpointLines * 2)
  const earlier = { ...at, ...(JSON.parse(JSON.stringify(at)) as JobPosition) }
  const second = await openRun(folder, {}, earlier)
  assert.equal(await second.run.run(), true)
  await second.close()
  assert.deepEqual(
    await idsOf(folder),
    Array.from({ length: count }, (_, i) => String(i)),
  )
})

test('errors of the model are tried again, mistakes of the line are not, and a busy server costs no attempt', async (t) => {
  const folder = await folderOf(t, '{"id":"500"}\n{"id":"400"}\nno json\n{"id":"503"}\n{"id":"flaky"}\n')
  const asked = new Map<string, number>()
  const call = (line: LineCall): Promise<LineAnswer> => {
    const times = (asked.get(line.id) ?? 0) + 1
    asked.set(line.id, times)
    const status =
      line.id === 'flaky' ? (times < 2 ? 500 : 200) : line.id === '503' && times > 2 ? 200 : Number(line.id)
    return Promise.resolve({ ...good(line), status })
  }
  const { run, counts, close } = await openRun(folder, { call, maxAttempts: 2 })
  assert.equal(await run.run(), true)
  await close()
  assert.deepEqual([...asked], [['500', 2], ['400', 1], ['503', 3], ['flaky', 2]]) // prettier-ignore
  assert.deepEqual(counts, { done: 2, failed: 3, dead: 0 })
})

test('a line that was given out too often before is put aside without a call', async (t) => {
  const folder = await folderOf(t, '')
  const item: JobItem = { line: Buffer.from('{"id":"x"}'), at: '7', earlierAttempts: 3, mark: null }
  const given = [[item], null]
  const aside: string[] = []
  const input = {
    next: () => Promise.resolve(given.shift() ?? null),
    done: () => Promise.resolve(),
    putAside: (_: JobItem, reason: string) => Promise.resolve(aside.push(reason) > 0),
    left: () => Promise.resolve(null),
    position: () => null,
    close: () => Promise.resolve(),
  }
  const { run, counts, close } = await openRun(folder, { input, call: () => assert.fail('it was called') })
  assert.equal(await run.run(), true)
  await close()
  assert.deepEqual(counts, { done: 0, failed: 1, dead: 1 })
  assert.match(aside[0] ?? '', /was tried 3 times/)
})

test('no line begins while others need the model', async (t) => {
  const folder = await folderOf(t, lines(10))
  let hasRoom = false
  let asked = 0
  const { run, close } = await openRun(folder, {
    room: () => (hasRoom ? 1 : 0),
    call: (line) => Promise.resolve((asked++, good(line))),
  })
  const ran = run.run()
  await until(() => run.standsStillBecause === 'other callers need the model', 'the run to wait')
  assert.equal(asked, 0)
  hasRoom = true
  assert.equal(await ran, true)
  await close()
  assert.equal(asked, 10)
})

test('the end of a line is room for the next one at once, whatever the clock says', async (t) => {
  const folder = await folderOf(t, lines(10))
  const clock = new ManualClock()
  const { run, counts, close } = await openRun(folder, { clock, room: (ownCount) => 1 - ownCount })
  assert.equal(await run.run(), true)
  await close()
  assert.equal(counts.done, 10)
})

test('an output that fails ends the run with its reason', async (t) => {
  const folder = await folderOf(t, lines(10))
  const output = {
    write: () => Promise.reject(new Error('disk full')),
    writtenBytes: 0,
    close: () => Promise.resolve(),
  }
  const { run, close } = await openRun(folder, { output })
  await assert.rejects(run.run(), /disk full/)
  await close()
})

test('a line of more bytes than the limit ends the run, and answers that wait are bounded', async (t) => {
  const folder = await folderOf(t, `{"id":"${'x'.repeat(longestLineBytes)}"}\n`)
  const { run, close } = await openRun(folder, {})
  await assert.rejects(run.run(), /line 1 of 'in.jsonl' has more than 67108864 bytes/)
  await close()

  const bytes = 16 * 1024
  const large = await folderOf(t, lines(40))
  let asked = 0
  let finish = (): void => undefined
  const slow = new Promise<void>((resolve) => (finish = resolve))
  const body = Buffer.from(`{"t":"${'y'.repeat(bytes)}"}`)
  const second = await openRun(large, {
    concurrency: 8,
    mostHeldBytes: bytes * 4,
    call: async () => {
      // The first line holds the others up: their answers wait for it.
      if (asked++ === 0) await slow
      return { status: 200, body }
    },
  })
  const ran = second.run.run()
  await until(() => asked >= 8, 'the first lines')
  await new Promise((resolve) => setTimeout(resolve, 100))
  assert.ok(asked <= 16, `${asked} lines began`)
  finish()
  assert.equal(await ran, true)
  await second.close()
})

import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { anonymous } from '../access/caller.ts'
import { SystemClock } from '../base/clock.ts'
import { BatchFiles } from './batch-files.ts'
import type { JobControl } from './job-control.ts'
import { OpenAiBatches } from './openai-batches.ts'

const line = '{"custom_id":"c","url":"/v1/completions","body":{"model":"m","prompt":"x"}}'

/** A control that takes its time with each job, and counts how many it has at once. */
async function batchesIn(t: TestContext) {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-batches-'))
  t.after(() => rm(folder, { recursive: true }))
  const clock = new SystemClock()
  const seen = { atOnce: 0, most: 0, inputs: [] as unknown[], cancelled: [] as string[] }
  const control = {
    list: () => [],
    create: async (_plan: unknown, lines: unknown) => {
      seen.most = Math.max(seen.most, ++seen.atOnce)
      seen.inputs.push(lines)
      await new Promise((resolve) => setImmediate(resolve))
      seen.atOnce--
      return null
    },
    cancel: (id: string) => Promise.resolve(seen.cancelled.push(id)),
  } as unknown as JobControl
  const files = new BatchFiles(clock, folder)
  const batches = new OpenAiBatches({ clock, control, files, outputFile: (id) => id, mostCallBytes: 1e6 })
  const add = async (text: string): Promise<string> => (await batches.addFile(anonymous, 'f', 'batch', Buffer.from(text))).id // prettier-ignore
  const create = (inputFile: string) => batches.create(anonymous, { inputFile, endpoint: '/v1/completions', window: '24h', metadata: null }) // prettier-ignore
  return { seen, files, add, create }
}

test('the lines of one batch at a time are in memory, and a job gets the file, not its bytes', async (t) => {
  const { seen, files, add, create } = await batchesIn(t)
  const id = await add(line)
  const made = await Promise.allSettled(Array.from({ length: 300 }, () => create(id)))
  const refused = made.filter((one) => one.status === 'rejected')
  assert.equal(refused.length, 300 - 256)
  assert.match(String(refused[0]?.reason), /256 batches wait to be checked: try again later/)
  assert.equal(seen.most, 1)
  assert.equal(seen.inputs.length, 256)
  assert.deepEqual(new Set(seen.inputs), new Set([files.pathOf(id)]))
  // One that fails keeps no later one waiting.
  await assert.rejects(create(await add('no call')), /line 1 of the input file/)
  await create(id)
})

test('a batch that cannot be kept leaves no job behind, whose answers nobody would find', async (t) => {
  const { seen, files, add, create } = await batchesIn(t)
  const id = await add(line)
  let kept = ''
  files.addBatch = (batch) => {
    kept = batch.id
    return Promise.reject(new Error('no space left on device'))
  }
  await assert.rejects(create(id), /no space left/)
  assert.deepEqual(seen.cancelled, [kept])
})

test('others are served while the empty lines of a batch are looked at', async (t) => {
  const { add, create } = await batchesIn(t)
  const id = await add('\n'.repeat(3_000_000) + line)
  const loop = { turns: 0, isOver: false }
  const count = (): void => {
    loop.turns++
    if (!loop.isOver) setImmediate(count)
  }
  const created = create(id)
  count()
  assert.equal((await created).batch.total, 1)
  loop.isOver = true
  assert.ok(loop.turns > 10, `${loop.turns} turns`)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { until } from '../../test/until.ts'
import type { JobInput, JobItem, JobOutput } from './job-channel.ts'
import { JobControl, type JobKeeper } from './job-control.ts'
import type { LineAnswer } from './job-line.ts'
import { readJobPlan } from './job-plan.ts'
import type { JobRecord } from './job-record.ts'

const nobody = { kind: 'anonymous' as const, principal: 'ann', tenant: '' }
const good: LineAnswer = { status: 200, body: Buffer.from('{"outputs":[]}') }
const lineOf = (at: string): JobItem => ({ line: Buffer.from('{}'), at, earlierAttempts: 0, mark: null })

class MemoryKeeper implements JobKeeper {
  readonly records = new Map<string, string>()
  read(): Promise<JobRecord[]> {
    return Promise.resolve([...this.records.values()].map((text) => JSON.parse(text) as JobRecord))
  }
  save(record: JobRecord): Promise<void> {
    this.records.set(record.id, JSON.stringify(record))
    return Promise.resolve()
  }
  saveLines(): Promise<void> {
    return Promise.resolve()
  }
  remove(id: string): Promise<void> {
    this.records.delete(id)
    return Promise.resolve()
  }
}

const inputOf = (items: JobItem[], isEndless: boolean): JobInput => ({
  next: (most) => Promise.resolve(items.length > 0 ? items.splice(0, most) : isEndless ? [] : null),
  done: () => Promise.resolve(),
  putAside: () => Promise.resolve(true),
  left: () => Promise.resolve(items.length),
  position: () => null,
  close: () => Promise.resolve(),
})
const output: JobOutput = { write: () => Promise.resolve(), writtenBytes: 0, close: () => Promise.resolve() }

function controlOf(
  keeper = new MemoryKeeper(),
  opened: () => JobInput = () => inputOf([lineOf('1')], false),
  written = output,
) {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const opens = { count: 0 }
  const control = new JobControl({
    clock,
    log,
    store: keeper,
    loadOf: () => ({
      pendingCount: 0,
      inFlightCount: 0,
      instanceCount: 1,
      batchSize: 1,
      pressure: null,
      hasClients: false,
    }),
    check: () => Promise.resolve(),
    open: () => {
      opens.count++
      return Promise.try(opened).then((input) => ({ input, output: written }))
    },
    call: () => Promise.resolve(good),
    discard: () => Promise.resolve(),
    counted: () => undefined,
    mostCallBytes: 1e6,
  })
  return { control, clock, log, keeper, opens }
}

const queue = readJobPlan({ model: 'm', input: { redis: { stream: 's' } } }).plan
const once = readJobPlan({ model: 'm', input: { files: 'a' } }).plan

test('a job runs to its end, is kept, and its state forbids what makes no sense', async () => {
  const { control, keeper } = controlOf()
  const { id } = await control.create(once, [], nobody)
  await until(() => control.list()[0]?.state === 'DONE', 'the end')
  const { record } = await control.view(id)
  assert.deepEqual([record.done, record.failed, record.author], [1, 0, 'ann'])
  await assert.rejects(control.pause(id), /is DONE already/)
  await assert.rejects(control.cancel(id), /is DONE already/)
  await assert.rejects(control.resume(id), /is DONE and cannot go on/)
  await assert.rejects(control.view('x'), /there is no job 'x'/)
  assert.match(keeper.records.get(id) ?? '', /"state":"DONE"/)
})

test('a queue that is away is tried again, and says so', async () => {
  let isAway = true
  const { control, clock, log, opens } = controlOf(new MemoryKeeper(), () => {
    if (isAway) throw new Error('nobody listens')
    return inputOf([lineOf('1')], true)
  })
  const { id } = await control.create(queue, [], nobody)
  await until(() => control.list()[0]?.reason === 'nobody listens', 'the reason')
  await until(() => clock.pendingCount > 0, 'the wait')
  assert.equal(log.entries.filter(({ level }) => level === 'warning').length, 1)
  isAway = false
  clock.advanceMs(1000)
  await until(async () => (await control.view(id)).record.done === 1, 'the line')
  assert.equal(opens.count, 2)
  await control.close()
  assert.equal(control.list()[0]?.state, 'RUNNING')
})

test('a job over files that cannot be opened fails, and can go on', async () => {
  let isAway = true
  const { control } = controlOf(new MemoryKeeper(), () => {
    if (isAway) throw new Error('no such file')
    return inputOf([lineOf('1')], false)
  })
  const { id } = await control.create(once, [], nobody)
  await until(() => control.list()[0]?.state === 'FAILED', 'the failure')
  assert.equal(control.list()[0]?.reason, 'no such file')
  isAway = false
  await control.resume(id)
  await until(() => control.list()[0]?.state === 'DONE', 'the end')
})

test('a schedule runs a job again and again', async () => {
  const { control, clock } = controlOf()
  await control.create({ ...once, schedule: '0 * * * *' }, [], nobody)
  assert.equal(control.list()[0]?.state, 'WAITING')
  for (const run of [1, 2]) {
    clock.advanceMs(3_600_000)
    await until(() => control.list()[0]?.state === 'WAITING' && control.list()[0]?.done === 1, `run ${run}`)
  }
  await control.close()
})

/** A job with a schedule whose answers are all written, and kept for good when `keep` is called. */
async function finishingJob() {
  const keeping = Promise.withResolvers<void>()
  let isKeeping = false
  const finish = (): Promise<void> => {
    isKeeping = true
    return keeping.promise
  }
  const { control, clock, opens } = controlOf(new MemoryKeeper(), undefined, { ...output, finish })
  const { id } = await control.create({ ...once, schedule: '0 * * * *' }, [], nobody)
  clock.advanceMs(3_600_000)
  await until(() => isKeeping, 'the last answers')
  return { control, clock, opens, id, keep: keeping.resolve }
}

for (const [act, state] of [
  ['cancel', 'CANCELLED'],
  ['pause', 'PAUSED'],
] as const) {
  // prettier-ignore
  test(`a job with a schedule runs no more after ${act}, also when its last answers were being kept`, async () => {
    const { control, clock, opens, id, keep } = await finishingJob()
    const acted = control[act](id)
    keep()
    assert.equal((await acted).state, state)
    clock.advanceMs(7_200_000)
    assert.deepEqual([control.list()[0]?.state, opens.count, clock.pendingCount], [state, 1, 0])
    await control.close()
  })
}

test('a server that ends while the last answers of a job with a schedule are kept plans no other run', async () => {
  const { control, clock, keep } = await finishingJob()
  const closed = control.close()
  keep()
  await closed
  assert.deepEqual([control.list()[0]?.state, clock.pendingCount], ['WAITING', 0])
})

test('a job with a schedule that is paused between two runs waits for the next one when it goes on', async () => {
  const { control, clock, opens } = controlOf()
  const { id } = await control.create({ ...once, schedule: '0 * * * *' }, [], nobody)
  for (const runs of [0, 1, 2]) {
    assert.equal((await control.pause(id)).state, 'PAUSED')
    assert.deepEqual([(await control.resume(id)).state, opens.count], ['WAITING', runs])
    clock.advanceMs(3_600_000)
    await until(() => control.list()[0]?.state === 'WAITING' && opens.count === runs + 1, `run ${runs + 1}`)
  }
  await control.close()
})

test('jobs of an earlier server go on, those that were paused do not', async () => {
  const keeper = new MemoryKeeper()
  const first = controlOf(keeper, () => inputOf([], true)).control
  const running = await first.create(queue, [], nobody)
  const paused = await first.create(queue, [], nobody)
  await first.pause(paused.id)
  await first.close()
  const second = controlOf(keeper)
  await second.control.restore()
  second.control.start()
  await until(() => second.control.list().find(({ id }) => id === running.id)?.state === 'DONE', 'the first job')
  assert.equal(second.control.list().find(({ id }) => id === paused.id)?.state, 'PAUSED')
  assert.equal(second.opens.count, 1)
})

test('16 jobs run at the same time, 1000 are kept', async () => {
  const { control, opens, keeper } = controlOf(new MemoryKeeper(), () => inputOf([], true))
  const ids: string[] = []
  for (let i = 0; i < 1000; i++) ids.push((await control.create(queue, [], nobody)).id)
  await until(() => opens.count === 16, '16 runs')
  await assert.rejects(control.create(queue, [], nobody), /1000 jobs are under way, which is the most/)
  const [first = '', second = ''] = ids
  await control.cancel(first)
  await until(() => opens.count === 17, 'the next in line')
  await control.create(queue, [], nobody)
  assert.deepEqual([control.list().length, keeper.records.has(first), keeper.records.has(second)], [1000, false, true])
  await control.close()
})

test('a caller whose jobs never end leaves half of the places to another one, and goes on when they are free', async () => {
  const { control, opens, log } = controlOf(new MemoryKeeper(), () => inputOf([], true))
  for (let i = 0; i < 40; i++) await control.create(queue, [], nobody)
  await until(() => opens.count === 16, '16 runs of one caller')
  const bobs: string[] = []
  for (let i = 0; i < 20; i++)
    bobs.push((await control.create(queue, [], { kind: 'anonymous' as const, principal: 'bob', tenant: '' })).id)
  const underWay = async (author: string): Promise<number> => {
    const views = await Promise.all(control.list().map(({ id }) => control.view(id)))
    return views.filter(({ record, left }) => record.author === author && left !== null).length
  }
  await until(async () => (await underWay('bob')) === 8 && (await underWay('ann')) === 8, 'eight runs each')
  assert.equal(log.entries.filter(({ message }) => message.includes('a caller with fewer of them')).length, 8)
  for (const id of bobs) await control.cancel(id)
  await until(async () => (await underWay('ann')) === 16, '16 runs again')
  assert.ok(control.list().every(({ author, state }) => state === (author === 'bob' ? 'CANCELLED' : 'RUNNING')))
  await control.close()
})

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { SystemClock } from '../../base/clock.ts'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import type { ServerError } from '../../base/server-error.ts'
import { emptyModelConfig } from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import { readInferRequest, type InferReadOptions } from '../../protocol/infer-request-reader.ts'
import type { ParsedInfer } from '../../protocol/parsed-infer.ts'
import type { LoadParameters } from '../../protocol/repository-request.ts'
import { defaultRequestLimits } from '../../../test/fixtures/request-limits.ts'
import { JsonOffload, type JsonOffloadSettings } from './json-offload.ts'
import { jsonCodecs } from './json-codecs.ts'
import { runWithCodecs, type JsonJob } from './json-offload-messages.ts'
import type { JsonThreadEvents } from './json-thread.ts'

const options: InferReadOptions = {
  headerLength: null,
  signature: new ModelSignature({ ...emptyModelConfig(), name: 'm' }),
  limits: defaultRequestLimits,
}
const bodyOf = (data: string): Buffer =>
  Buffer.from(`{"id":"7","inputs":[{"name":"X","datatype":"INT32","shape":[2],"data":${data}}]}`)

/** A thread that does what the test tells it to, when it is told to. */
class ScriptedThread {
  readonly events: JsonThreadEvents
  readonly jobs: JsonJob[] = []
  isTerminated = false

  constructor(events: JsonThreadEvents) {
    this.events = events
  }
  post(job: JsonJob): void {
    this.jobs.push(job)
  }
  terminate(): void {
    this.isTerminated = true
    this.events.onExit('it was ended')
  }
  /** Finishes its latest job. */
  answer(): void {
    this.events.onResult(runWithCodecs(this.jobs.at(-1) as JsonJob, jsonCodecs).message)
  }
}

function offloadUnderTest(settings: Partial<JsonOffloadSettings> = {}) {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const threads: ScriptedThread[] = []
  const openThread = (events: JsonThreadEvents): ScriptedThread => {
    const thread = new ScriptedThread(events)
    threads.push(thread)
    return thread
  }
  const limits = {
    maxThreads: 1,
    shortThreads: 0,
    maxWaitingBytes: 1000,
    jobTimeoutMs: 60_000,
    idleTimeoutMs: 30_000,
    ...settings,
  }
  const offload = new JsonOffload({ clock, log, openThread }, limits)
  const ended: (ParsedInfer | ServerError | null)[] = []
  const read = (body: Buffer) => offload.read('infer', body, options, (error, parsed) => ended.push(error ?? parsed))
  return { clock, log, threads, offload, ended, read }
}

test('no thread exists before the first large body, and none after it has been idle', () => {
  const { clock, threads, offload, ended, read } = offloadUnderTest()
  assert.equal(threads.length, 0)
  read(bodyOf('[1,2]'))
  threads[0]?.answer()
  assert.equal((ended[0] as ParsedInfer).id, '7')
  clock.advanceMs(29_999)
  assert.equal(offload.threadCount, 1)
  clock.advanceMs(1)
  assert.equal(offload.threadCount, 0)
  assert.equal(clock.pendingCount, 0)
})

test('an error keeps its code and its text', () => {
  const { threads, ended, read } = offloadUnderTest()
  read(bodyOf('[1,2,3]'))
  threads[0]?.answer()
  const expected = assertThrown(() => readInferRequest(bodyOf('[1,2,3]'), options))
  assert.equal((ended[0] as ServerError).message, expected.message)
  assert.equal((ended[0] as ServerError).code, expected.code)
})

test('a job that never ends fails alone, and the next one gets a new thread', () => {
  const { clock, threads, ended, read } = offloadUnderTest()
  read(bodyOf('[1,2]'))
  read(bodyOf('[3,4]'))
  clock.advanceMs(60_000)
  assert.equal(threads[0]?.isTerminated, true)
  assert.match((ended[0] as ServerError).message, /^reading the request's JSON took longer than 60 s and was given up/)
  threads[1]?.answer()
  assert.equal((ended[1] as ParsedInfer).id, '7')
})

test('a thread that dies fails the job it had in hand and is replaced', () => {
  const { log, threads, ended, read } = offloadUnderTest()
  read(bodyOf('[1,2]'))
  read(bodyOf('[3,4]'))
  threads[0]?.events.onExit('out of memory')
  assert.equal((ended[0] as ServerError).code, 'INTERNAL')
  assert.match((ended[0] as ServerError).message, /reading the request's JSON was lost: out of memory/)
  threads[1]?.answer()
  assert.equal((ended[1] as ParsedInfer).id, '7')
  assert.equal(log.entries.filter((entry) => entry.level === 'error').length, 1)
})

test('what waits is bounded in bytes, and the refusal says so', () => {
  const { offload, read } = offloadUnderTest({ maxWaitingBytes: 200 })
  read(bodyOf('[1,2]'))
  read(bodyOf('[1,2]'))
  read(bodyOf('[1,2]'))
  assert.equal(offload.waitingCount, 2)
  const refusal = assertThrown(() => read(bodyOf('[1,2]')))
  assert.equal(refusal.code, 'UNAVAILABLE')
  assert.match(refusal.message, /2 large JSON bodies of \d+ bytes waiting .* no more than 200, try again later/)
})

test('a cancelled job leaves the queue and never reaches a thread', () => {
  const { threads, offload, ended, read } = offloadUnderTest({ maxWaitingBytes: 100 })
  read(bodyOf('[1,2]'))
  const second = read(bodyOf('[3,4]'))
  second.cancel()
  second.cancel()
  assert.equal(offload.waitingCount, 0)
  read(bodyOf('[5,6]'))
  threads[0]?.answer()
  threads[0]?.answer()
  assert.equal(threads[0]?.jobs.length, 2)
  assert.equal(ended.length, 2)
})

test('the result of a job that was cancelled while in work is dropped', () => {
  const { threads, ended, read } = offloadUnderTest()
  read(bodyOf('[1,2]')).cancel()
  threads[0]?.answer()
  assert.deepEqual(ended, [])
})

test('large jobs of one client do not delay the small ones of others', () => {
  const { threads, read } = offloadUnderTest({ maxWaitingBytes: 1e9, shortThreads: 1 })
  const large = (): Buffer => Buffer.concat([bodyOf('[1,2]'), Buffer.alloc(5 * 1024 * 1024, ' ')])
  for (let i = 0; i < 5; i++) read(large())
  read(Buffer.concat([bodyOf('[1,2]'), Buffer.alloc(1000, ' ')]))
  read(Buffer.concat([bodyOf('[1,2]'), Buffer.alloc(2000, ' ')]))
  read(bodyOf('[1,2]'))
  assert.equal(threads.length, 2)
  const latestBytes = (): number => {
    const job = threads[1]?.jobs.at(-1)
    return job?.kind === 'read' ? job.body.length : 0
  }
  const short = bodyOf('[1,2]').length
  for (const more of [1000, 0, 2000]) {
    assert.equal(latestBytes(), short + more)
    if (more < 2000) threads[1]?.answer()
  }
  assert.equal(threads[0]?.jobs.length, 1)
  threads[1]?.answer()
  threads[0]?.answer()
  assert.equal(threads[0]?.jobs.length, 2)
  assert.equal(threads[1]?.jobs.length, 3)
})

test('closing fails what is left and ends the threads', () => {
  const { clock, threads, offload, ended, read } = offloadUnderTest()
  read(bodyOf('[1,2]'))
  read(bodyOf('[3,4]'))
  offload.close()
  offload.close()
  assert.deepEqual(
    ended.map((end) => (end as ServerError).message),
    ['Server exiting', 'Server exiting'],
  )
  assert.equal(threads[0]?.isTerminated, true)
  assert.equal(clock.pendingCount, 0)
})

test('bodies and results change their owner instead of being copied', async () => {
  const offload = new JsonOffload({ clock: new SystemClock(), log: new MemoryLog() })
  try {
    const count = 100_000
    const numbers = Array.from({ length: count }, (_, i) => i)
    const head = `{"inputs":[{"name":"X","datatype":"INT32","shape":[${count}],"data":[`
    const body = Buffer.from(`${head}${numbers.join(',')}]}]}`)
    const { buffer } = body
    const parsed = await new Promise<ParsedInfer | null>((resolve, reject) =>
      offload.read('infer', body, options, (error, value) => (error === null ? resolve(value) : reject(error))),
    )
    assert.equal(buffer.byteLength, 0)
    const bytes = parsed?.inputs[0]?.bytes ?? new Uint8Array(0)
    assert.deepEqual([...new Int32Array(bytes.buffer, bytes.byteOffset, count)], numbers)
  } finally {
    offload.close()
  }
})

test('the files of a load request come back whole', async () => {
  const offload = new JsonOffload({ clock: new SystemClock(), log: new MemoryLog() })
  try {
    const files = { 'file:1/a': Buffer.alloc(300_000, 'a').toString('base64'), 'file:1/b': 'QUJD' }
    const body = Buffer.from(JSON.stringify({ parameters: { config: '{}', ...files } }))
    const read = await new Promise<LoadParameters | null>((resolve, reject) =>
      offload.readLoad(body, (error, value) => (error === null ? resolve(value) : reject(error))),
    )
    assert.equal(read?.config, '{}')
    assert.equal(Buffer.compare(read.files.get('1/a') ?? Buffer.alloc(0), Buffer.alloc(300_000, 'a')), 0)
    assert.equal(Buffer.from(read.files.get('1/b') ?? []).toString(), 'ABC')
  } finally {
    offload.close()
  }
})

function assertThrown(act: () => unknown): ServerError {
  try {
    act()
  } catch (reason) {
    return reason as ServerError
  }
  return assert.fail('nothing was thrown')
}

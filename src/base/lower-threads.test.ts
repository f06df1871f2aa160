import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import promises, { stat } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { getPriority } from 'node:os'
import { test } from 'node:test'
import { lowerThreads } from './lower-threads.ts'

const threadsNamed = (name: string): number[] =>
  readdirSync('/proc/self/task')
    .filter((thread) => readFileSync(`/proc/self/task/${thread}/comm`, 'latin1').trimEnd() === name)
    .map(Number)

/** Of the shape `se.slice : 100000`, where the kernel tells it. */
const scheduled = (thread: number, what: string): number => {
  const text = readFileSync(`/proc/self/task/${thread}/sched`, 'latin1')
  return Number(new RegExp(`^${what}\\s*:\\s*(\\d+)`, 'm').exec(text)?.[1])
}
const sliceOf = (thread: number): number => scheduled(thread, 'se\\.slice')

test(
  'threads of one name yield as SCHED_BATCH, with a long slice where the kernel has slices, and no other thread does',
  {
    skip: process.platform !== 'linux',
  },
  async () => {
    await stat('/')
    const pool = threadsNamed('libuv-worker')
    assert.ok(pool.length > 0)
    const own = getPriority(process.pid)
    const ownSlice = sliceOf(process.pid)
    const ownPolicy = scheduled(process.pid, 'policy')
    await lowerThreads('libuv-worker', 10)
    for (const thread of pool) {
      assert.equal(getPriority(thread), Math.min(19, own + 10))
      if (ownPolicy >= 0) assert.equal(scheduled(thread, 'policy'), 3)
      if (ownSlice > 0) assert.equal(sliceOf(thread), 100_000_000)
    }
    assert.equal(getPriority(process.pid), own)
    assert.deepEqual(sliceOf(process.pid), ownSlice)
    assert.deepEqual(scheduled(process.pid, 'policy'), ownPolicy)
  },
)

test(
  'threads that cannot be listed, because no descriptor is free, run as before',
  { skip: process.platform !== 'linux' },
  async (t) => {
    t.mock.method(promises, 'readdir', () => Promise.reject(new Error('EMFILE: too many open files')))
    syncBuiltinESMExports()
    t.after(() => {
      t.mock.restoreAll()
      syncBuiltinESMExports()
    })
    await lowerThreads('node-V8Worker', 5)
  },
)

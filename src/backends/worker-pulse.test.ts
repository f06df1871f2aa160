import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { processState, threadCpu, WorkerPulse } from './worker-pulse.ts'
import { until } from '../../test/until.ts'

const idle = (): Promise<boolean> => Promise.resolve(false)

test('a word is sent when the last one was answered, and one that was not answered is a sign of death', async () => {
  const pulse = new WorkerPulse()
  let sent = 0
  const beat = (): Promise<boolean> => pulse.beat(() => void sent++, idle)
  assert.equal(await beat(), true)
  assert.equal(await beat(), false)
  assert.equal(sent, 1)
  pulse.answered()
  assert.equal(await beat(), true)
  assert.equal(sent, 2)
})

test('what does not answer because it is at work is alive', async () => {
  const pulse = new WorkerPulse()
  await pulse.beat(() => undefined, idle)
  assert.equal(
    await pulse.beat(
      () => undefined,
      () => Promise.resolve(true),
    ),
    true,
  )
})

test('what uses the CPU has moved, what stands still has not', () => {
  const pulse = new WorkerPulse()
  assert.equal(pulse.hasMoved({ user: 5000, system: 0 }), true)
  assert.equal(pulse.hasMoved({ user: 5100, system: 100 }), false)
  assert.equal(pulse.hasMoved({ user: 6000, system: 400 }), true)
  assert.equal(pulse.hasMoved(null), false)
})

test(
  'a thread that is blocked tells what it used, without being asked itself',
  { skip: !('cpuUsage' in Worker.prototype) && 'this version of Node cannot tell' },
  async () => {
    const gate = new Int32Array(new SharedArrayBuffer(4))
    const source = `const { parentPort, workerData } = require('node:worker_threads')
    parentPort.postMessage('here'); Atomics.wait(workerData, 0, 0)`
    const thread = new Worker(source, { eval: true, workerData: gate })
    await once(thread, 'message')
    const pulse = new WorkerPulse()
    pulse.hasMoved(await threadCpu(thread))
    assert.notEqual(await threadCpu(thread), null)
    await thread.terminate()
  },
)

test(
  'a process that is stopped is told from one that runs',
  { skip: process.platform !== 'linux' && 'no /proc' },
  async () => {
    const child = spawn('sleep', ['60'])
    await once(child, 'spawn')
    const pid = child.pid as number
    try {
      assert.equal((await processState(pid))?.isStopped, false)
      child.kill('SIGSTOP')
      // The signal is delivered by the system in its own time.
      await until(async () => (await processState(pid))?.isStopped, 'the process to be stopped')
    } finally {
      child.kill('SIGKILL')
    }
    await once(child, 'close')
    assert.equal(await processState(pid), null)
  },
)

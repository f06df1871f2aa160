// How late requests are told that their time is over when a great many wait, each with a time-out of its own, and how late
// a timer is that was set beside them: what the machine is late anyway.

import { SystemClock } from '../src/base/clock.ts'
import type { Instance } from '../src/model/backend.ts'
import { InferenceRequest } from '../src/model/inference-request.ts'
import { DirectScheduler } from '../src/scheduling/direct-scheduler.ts'

const busyForEver: Instance = {
  name: 'busy',
  isReady: true,
  execute: () => undefined,
  close: () => Promise.resolve(),
}

/** Milliseconds. Time-outs are between 0.3 and 1.3 seconds. */
export async function measureDeadlines(
  count: number,
): Promise<{ readonly lateMs: readonly number[]; readonly timerLateMs: readonly number[] }> {
  const scheduler = new DirectScheduler({ clock: new SystemClock() }, [busyForEver], { maxQueueSize: Infinity })
  scheduler.enqueue(new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined }))
  const lateMs: number[] = []
  const timerLateMs: number[] = []
  await new Promise<void>((resolve) => {
    let sentCount = 0
    const send = (): void => {
      const timeoutMs = 300 + ((sentCount * 7919) % 1_000_000) / 1000
      const dueMs = performance.now() + timeoutMs
      const sink = (): void => {
        lateMs.push(performance.now() - dueMs)
        if (lateMs.length === count) resolve()
      }
      const timeoutUs = BigInt(Math.round(timeoutMs * 1000))
      scheduler.enqueue(new InferenceRequest({ modelName: 'm', inputs: [], timeoutUs, sink }))
      if (sentCount++ % 50 > 0) return
      setTimeout(() => timerLateMs.push(performance.now() - dueMs), timeoutMs)
    }
    const sendSome = (): void => {
      for (let i = Math.min(500, count - sentCount); i > 0; i--) send()
      if (sentCount < count) setImmediate(sendSome)
    }
    sendSome()
  })
  return { lateMs, timerLateMs }
}

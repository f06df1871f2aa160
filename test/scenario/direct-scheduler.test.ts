// The direct scheduler under random arrivals, finishes, cancellations, worker deaths and time, in virtual time.
// A failing run prints the seed that repeats it.

import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { ManualClock } from '../../src/base/clock.ts'
import type { Instance } from '../../src/model/backend.ts'
import type { Batch } from '../../src/model/batch.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { DirectScheduler } from '../../src/scheduling/direct-scheduler.ts'

const maxQueueSize = 4
const instanceCount = 2

class SimulatedInstance implements Instance {
  readonly name = 'simulated'
  isReady = true
  batch: Batch | null = null
  readonly started: InferenceRequest[]

  constructor(started: InferenceRequest[]) {
    this.started = started
  }
  execute(batch: Batch): void {
    assert.ok(this.isReady, 'only a ready instance is given work')
    assert.equal(this.batch, null, 'one batch at a time')
    assert.equal(batch.requests.length, 1, 'one request per execution')
    this.batch = batch
    this.started.push(...batch.requests)
  }
  finish(): void {
    const batch = this.batch
    if (batch === null) return
    this.batch = null
    for (const request of batch.requests) request.respond(InferenceResponse.of([]))
    batch.executed()
  }
  close(): Promise<void> {
    return Promise.resolve()
  }
}

const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('arrive' as const), value: fc.nat(200) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('finish' as const), value: fc.nat(instanceCount - 1) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), value: fc.nat(30) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), value: fc.nat(100) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('flip' as const), value: fc.nat(instanceCount - 1) }) },
)

test('under any history every request ends once, in order, within the bound, and nobody idles while work waits', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const clock = new ManualClock()
      const started: InferenceRequest[] = []
      const admitted: InferenceRequest[] = []
      const ends = new Map<InferenceRequest, number>()
      const instances = Array.from({ length: instanceCount }, () => new SimulatedInstance(started))
      const scheduler = new DirectScheduler({ clock }, instances, { maxQueueSize })
      const act = ({ do: action, value }: { do: string; value: number }): void => {
        if (action === 'arrive') {
          const request = new InferenceRequest({
            modelName: 'm',
            inputs: [],
            timeoutUs: BigInt(value % 3 === 0 ? value + 1 : 0),
            sink: (_, ended) => ends.set(ended, (ends.get(ended) ?? 0) + 1),
          })
          admitted.push(request)
          scheduler.enqueue(request)
        } else if (action === 'finish') instances[value]?.finish()
        else if (action === 'cancel') admitted.at(-1 - value)?.cancel()
        else if (action === 'advance') clock.advanceUs(value)
        else {
          const instance = instances[value] as SimulatedInstance
          instance.isReady = !instance.isReady
          scheduler.instancesChanged()
        }
      }
      const check = (): void => {
        const running = instances.filter((instance) => instance.batch !== null).length
        assert.equal(admitted.length, ends.size + scheduler.pendingCount + running, 'every request is somewhere')
        for (const count of ends.values()) assert.equal(count, 1, 'a request ends once')
        assert.ok(scheduler.pendingCount <= maxQueueSize, 'the queue keeps its bound')
        const canWork = instances.some((instance) => instance.isReady && instance.batch === null)
        assert.ok(!(canWork && scheduler.pendingCount > 0), 'no ready instance idles while a request waits')
        const order = started.map((request) => admitted.indexOf(request))
        assert.deepEqual(
          order,
          [...order].sort((a, b) => a - b),
          'first in, first out',
        )
      }
      for (const next of steps) {
        act(next)
        check()
      }
      // Then everything becomes ready again and is left to finish: nothing may be left over.
      for (const instance of instances) instance.isReady = true
      scheduler.instancesChanged()
      while (ends.size < admitted.length) for (const instance of instances) instance.finish()
      check()
      assert.equal(clock.pendingCount, 0, 'no timer is left behind')
    }),
    { numRuns: 400 },
  )
})

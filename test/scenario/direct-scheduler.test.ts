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
const deepest = 3

class SimulatedInstance implements Instance {
  readonly name = 'simulated'
  isReady = true
  prefetchDepth: number
  /** The first executes, the others are parked. */
  readonly batches: Batch[] = []
  readonly started: InferenceRequest[]

  constructor(started: InferenceRequest[], prefetchDepth: number) {
    this.started = started
    this.prefetchDepth = prefetchDepth
  }
  execute(batch: Batch): void {
    assert.ok(this.isReady, 'only a ready instance is given work')
    assert.ok(this.batches.length === 0 || this.batches.length <= this.prefetchDepth, 'no more batches than it takes')
    assert.equal(batch.requests.length, 1, 'one request per execution')
    if (this.batches.length > 0) {
      assert.equal(batch.requests[0]?.timeoutUs, 0n, 'a request that may expire waits where it can')
    }
    this.batches.push(batch)
    this.started.push(...batch.requests)
  }
  finish(): void {
    const batch = this.batches.shift()
    if (batch === undefined) return
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
  { weight: 1, arbitrary: fc.record({ do: fc.constant('depth' as const), value: fc.nat(deepest) }) },
)

const scenarios: readonly { readonly title: string; readonly count: number; readonly depth: number }[] = [
  { title: 'under any history', count: instanceCount, depth: 0 },
  { title: 'with one instance that takes batches ahead of time', count: 1, depth: deepest },
  { title: 'with several that would, of which each gets one at a time,', count: instanceCount, depth: deepest },
]

for (const { title, count: instanceTotal, depth } of scenarios) {
  test(`${title} every request ends once, in order, within the bound, and nobody idles while work waits`, () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const clock = new ManualClock()
        const started: InferenceRequest[] = []
        const admitted: InferenceRequest[] = []
        const ends = new Map<InferenceRequest, number>()
        const instances = Array.from({ length: instanceTotal }, () => new SimulatedInstance(started, depth))
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
          else if (action === 'depth') {
            for (const instance of instances) instance.prefetchDepth = Math.min(value, depth)
          } else {
            const instance = instances[value % instanceTotal] as SimulatedInstance
            instance.isReady = !instance.isReady
            scheduler.instancesChanged()
          }
        }
        const check = (): void => {
          const running = instances.reduce((sum, instance) => sum + instance.batches.length, 0)
          if (instanceTotal > 1) {
            assert.ok(
              instances.every(({ batches }) => batches.length <= 1),
              'one of several instances parks nothing',
            )
          }
          assert.equal(admitted.length, ends.size + scheduler.pendingCount + running, 'every request is somewhere')
          for (const count of ends.values()) assert.equal(count, 1, 'a request ends once')
          assert.ok(scheduler.pendingCount <= maxQueueSize, 'the queue keeps its bound')
          const canWork = instances.some((instance) => instance.isReady && instance.batches.length === 0)
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
}

test('the sole instance is handed further requests up to its depth, and the queue bound counts those that wait behind', () => {
  const started: InferenceRequest[] = []
  const instance = new SimulatedInstance(started, 2)
  const scheduler = new DirectScheduler({ clock: new ManualClock() }, [instance], { maxQueueSize })
  const errors: (string | undefined)[] = []
  for (let i = 0; i < 3 + maxQueueSize + 1; i++) {
    const sink = (response: InferenceResponse): void => void errors.push(response.error?.message)
    scheduler.enqueue(new InferenceRequest({ modelName: 'm', inputs: [], sink }))
  }
  assert.equal(started.length, 3)
  assert.equal(scheduler.pendingCount, maxQueueSize)
  assert.deepEqual(errors, ['[request id: <id_unknown>] Exceeds maximum queue size'])
  // It takes none ahead of time any more: what it holds comes first, then one at a time.
  instance.prefetchDepth = 0
  instance.finish()
  instance.finish()
  assert.equal(started.length, 3)
  instance.finish()
  assert.equal(started.length, 4)
})

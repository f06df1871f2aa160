import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import type { ResponseCache } from '../model/response-cache.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { ResponseCacheScheduler } from './response-cache-scheduler.ts'
import { SingleFlightScheduler } from './single-flight-scheduler.ts'

test('what stands in front of a scheduler passes on everything that the scheduler can do', async () => {
  const told: string[] = []
  const tell = (what: string) => (): Promise<void> => {
    told.push(what)
    return Promise.resolve()
  }
  const sequences = { sequenceCount: 2, holdsSequence: () => true, sequencesEnded: () => Promise.resolve() }
  const inner: Required<Scheduler> = {
    enqueue: () => void told.push('enqueue'),
    joinOrder: () => void told.push('joinOrder'),
    pendingCount: 7,
    sequences,
    hasCache: false,
    queue: null,
    door: null,
    instancesChanged: () => void told.push('instancesChanged'),
    setInstances: tell('setInstances'),
    drain: tell('drain'),
    close: () => void told.push('close'),
  }
  const clock = new ManualClock()
  const cache = { lookup: () => null, dropPrefix: () => undefined, timings: { lookupNs: 0, insertNs: 0 } }
  const single: Scheduler = new SingleFlightScheduler({ clock }, inner)
  const front: Scheduler = new ResponseCacheScheduler({ clock, cache: cache as unknown as ResponseCache }, single, 'p')
  const request = new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined })
  assert.deepEqual([single.hasCache, front.hasCache], [false, true])
  assert.equal(front.sequences, sequences)
  assert.equal(front.pendingCount, 7)
  front.enqueue(request)
  front.joinOrder?.(request)
  front.instancesChanged()
  await front.setInstances?.([])
  await front.drain()
  front.close()
  assert.deepEqual(told, ['enqueue', 'joinOrder', 'instancesChanged', 'setInstances', 'drain', 'close'])
})

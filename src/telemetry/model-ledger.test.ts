import assert from 'node:assert/strict'
import test from 'node:test'
import { ServerError } from '../base/server-error.ts'
import { Batch } from '../model/batch.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { ModelLedger } from './model-ledger.ts'
import { Statistics } from './statistics.ts'

const workload = { count: 2, readyCount: 1, restartCount: 3, busyNs: (nowNs: number) => nowNs }
const version = { name: 'm', version: '1', pendingCount: 2, inFlightCount: 3, loadSeconds: 1, workload }
const noTags = new Map<string, string>()

function worked(successes: number, failures = 0): Statistics {
  const statistics = new Statistics({ hasResponseStatistics: false })
  for (let i = 0; i < successes + failures; i++) {
    const request = new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined })
    Object.assign(request, { receivedNs: 1, queueStartNs: 2, computeStartNs: 3, computeEndNs: 1003, endNs: 2001 })
    const isFailure = i >= successes
    const failure = InferenceResponse.failure(new ServerError('INTERNAL', 'no'))
    statistics.recordResponse(request, isFailure ? failure : InferenceResponse.of([]), 0)
    statistics.recordExecution(new Batch([request], 1, () => undefined), 2001)
  }
  return statistics
}

const onlyEntry = (ledger: ModelLedger) => {
  const [entry, ...others] = [...ledger.entries()]
  assert.ok(entry !== undefined && others.length === 0)
  return entry
}

test('a reload goes on counting where the version before it was', () => {
  const ledger = new ModelLedger()
  const leave = ledger.open(version, noTags, worked(5, 1))
  ledger.open(version, noTags, worked(2))
  const before = onlyEntry(ledger).totals()
  leave(0)
  const after = onlyEntry(ledger).totals()
  assert.deepEqual(after, before)
  assert.equal(after.successCount, 7)
  assert.equal(after.executionCount, 8)
  assert.equal(after.durationsNs.request, 7n * 2000n)
  assert.equal(after.failures.BACKEND, 1)
})

test('busy time and restarts go on through a reload, and begin anew when the last version is gone', () => {
  const ledger = new ModelLedger()
  const leaveFirst = ledger.open(version, noTags, worked(0))
  const leaveSecond = ledger.open(version, noTags, worked(0))
  leaveFirst(100)
  const entry = onlyEntry(ledger)
  assert.equal(entry.busyNs(150), 250)
  assert.equal(entry.restartCount(), 6)
  leaveSecond(200)
  assert.equal(entry.busyNs(200), 0)
  assert.equal(entry.restartCount(), 0)
})

test('after the last version of a label set only its failures are remembered', () => {
  const ledger = new ModelLedger()
  const leave = ledger.open(version, noTags, worked(5, 2))
  leave(0)
  leave(0)
  const entry = onlyEntry(ledger)
  assert.equal(entry.isServing, false)
  assert.equal(entry.totals().successCount, 0)
  assert.equal(entry.totals().failures.BACKEND, 2)
  ledger.open(version, noTags, worked(1, 1))
  assert.equal(onlyEntry(ledger).totals().successCount, 1)
  assert.equal(onlyEntry(ledger).totals().failures.BACKEND, 3)
})

test('tags become labels, and other tags other series', () => {
  const ledger = new ModelLedger()
  ledger.open(version, new Map([['team', 'blue']]), worked(1))
  ledger.open(version, new Map([['team', 'red']]), worked(1))
  assert.deepEqual(
    [...ledger.entries()].map((entry) => entry.labelText),
    ['_team="blue",model="m",version="1"', '_team="red",model="m",version="1"'],
  )
})

test('waiting and running requests of an old and a new version add up', () => {
  const ledger = new ModelLedger()
  ledger.open(version, noTags, worked(0))
  ledger.open(version, noTags, worked(0))
  assert.equal(onlyEntry(ledger).pendingCount(), 4)
  assert.equal(
    onlyEntry(ledger).sum((one) => one.inFlightCount),
    6,
  )
})

test('of versions that are gone the last thousand are remembered', () => {
  const ledger = new ModelLedger()
  const leave = [0, 1, 2].map((i) => ledger.open({ ...version, name: `first-${i}` }, noTags, worked(0)))
  for (const gone of [leave[0], leave[2]]) gone?.(0)
  ledger.open({ ...version, name: 'first-2' }, noTags, worked(0))
  for (let i = 0; i < 1500; i++) ledger.open({ ...version, name: `other-${i}` }, noTags, worked(0))(0)
  const names = [...ledger.entries()].map(({ labels }) => labels[0]?.[1])
  assert.deepEqual([names.length, ...names.slice(0, 3)], [1002, 'first-1', 'first-2', 'other-500'])
})

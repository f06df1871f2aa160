import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anyPart } from '../test/fakes/any-part.ts'
import { ManualClock } from '../test/fakes/manual-clock.ts'
import { JobLoads } from './job-loads.ts'
import type { LedgerEntry } from './telemetry/model-ledger.ts'
import type { LoadFigures } from './telemetry/pressure-meter.ts'

test('the pressure that a job looks at is without its own lines', () => {
  const clock = new ManualClock()
  const success = { count: 0 }
  const entry = { labels: [['model', 'm']], live: [{ statistics: { success, fail: { count: 0 } } }] } as unknown as LedgerEntry // prettier-ignore
  let figures = figuresOf(entry, 0)
  const version = { isReady: true, pendingCount: 0, inFlightCount: 0, instances: [1, 2], config: { dynamicBatching: null, maxBatchSize: 0 } } // prettier-ignore
  const engine = anyPart({ servedModel: () => ({ versions: new Map([['1', version]]) }) as never })
  const loads = new JobLoads(clock, engine, anyPart({ entries: () => [entry] as never }), () => figures)
  const second = (lines: number, others: number, pressure: number): number | null | undefined => {
    for (let i = 0; i < lines; i++) loads.lineAnswered('m')
    success.count += lines + others
    clock.advanceMs(1000)
    figures = figuresOf(entry, pressure)
    return loads.of('m', '')?.pressure
  }
  second(0, 0, 0)
  assert.equal(loads.of('m', '')?.hasClients, false)
  assert.equal(second(30, 10, 0.8), 0.2)
  assert.equal(loads.of('m', '')?.hasClients, true)
  assert.equal(second(0, 40, 0.8), 0.8 * (50 / 80))
  // What is older than the window of the pressure counts no more.
  for (let i = 0; i < 20; i++) second(0, 1, 0.8)
  assert.equal(second(0, 1, 0.8), 0.8)
  // A version that was loaded anew begins at nothing.
  success.count = 0
  assert.equal(second(0, 5, 0.4), 0.4)
})

const figuresOf = (entry: LedgerEntry, pressure: number): LoadFigures =>
  anyPart({ pressures: new Map([[entry, pressure]]) })

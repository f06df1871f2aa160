import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { loadReport } from './load-reports.ts'
import { ModelLedger, type MeteredVersion } from './model-ledger.ts'
import { PressureMeter, type LoadFigures, type MachineReadings } from './pressure-meter.ts'
import { Statistics } from './statistics.ts'

type Model = {
  readonly statistics: Statistics
  busyNs: number
  waiting: number
  ready: number
  count: number
}

function machine(): { -readonly [Key in keyof MachineReadings]: MachineReadings[Key] } & {
  memory: number
  main: number
} {
  const self = {
    memory: 0.5,
    main: 0,
    coreCount: 2,
    cpuMicros: () => 0,
    memoryShare: () => self.memory,
    loop: () => ({ idle: 0, active: 0, utilization: self.main }),
  }
  return self
}

function meterOf(names: readonly string[]): {
  readonly clock: ManualClock
  readonly meter: PressureMeter
  readonly models: Model[]
  readonly readings: ReturnType<typeof machine>
  readonly samples: () => number
} {
  const clock = new ManualClock()
  const ledger = new ModelLedger()
  const models = names.map((name): Model => {
    const model: Model = { statistics: new Statistics({ hasResponseStatistics: false }), busyNs: 0, waiting: 0, ready: 1, count: 1 } // prettier-ignore
    const version: MeteredVersion = {
      name,
      version: '1',
      loadSeconds: 0,
      get pendingCount() {
        return model.waiting
      },
      get inFlightCount() {
        return model.waiting + 1
      },
      get workload() {
        return { count: model.count, readyCount: model.ready, restartCount: 0, busyNs: () => model.busyNs }
      },
    }
    ledger.open(version, new Map(), model.statistics)
    return model
  })
  let looks = 0
  const entries = (): ReturnType<ModelLedger['entries']> => {
    looks++
    return ledger.entries()
  }
  const readings = machine()
  return { clock, meter: new PressureMeter(clock, entries, readings), models, readings, samples: () => looks }
}

const only = ({ pressures }: LoadFigures): number | undefined => [...pressures.values()][0]

test('pressure is busy instances and what waits for them, divided by the instances that are ready', () => {
  const { clock, meter, models } = meterOf(['m'])
  const [model] = models as [Model]
  model.ready = 2
  meter.figures()
  clock.advanceMs(10_000)
  model.busyNs = 10e9
  for (let i = 0; i < 100; i++) model.statistics.success.add(1e6)
  // One of two instances was busy all the time, and a request takes 0.1 s of an instance.
  assert.equal(only(meter.figures()), 0.5)
  clock.advanceMs(1000)
  model.busyNs = 11e9
  for (let i = 0; i < 10; i++) model.statistics.success.add(1e6)
  model.waiting = 30
  const figures = meter.figures()
  assert.equal(only(figures), 2)
  assert.deepEqual([figures.server, figures.waiting, figures.running, figures.requestsPerSec], [2, 30, 1, 10])
})

test('what happened before the window does not count, and nothing is looked at while nobody asks', () => {
  const { clock, meter, models, samples } = meterOf(['m'])
  const [model] = models as [Model]
  meter.figures()
  for (let second = 0; second < 60; second++) {
    model.busyNs += 1e9
    clock.advanceMs(1000)
    meter.figures()
  }
  assert.equal(only(meter.figures()), 1)
  clock.advanceMs(20_000)
  assert.equal(only(meter.figures()), 0)
  clock.advanceMs(200_000)
  const before = samples()
  clock.advanceMs(600_000)
  assert.equal(samples(), before)
  meter.close()
})

test('an ensemble has no pressure; a full memory and a busy main thread are pressure of the server', () => {
  const { clock, meter, models, readings } = meterOf(['m'])
  const [model] = models as [Model]
  model.count = 0
  readings.main = 0.3
  assert.deepEqual([only(meter.figures()), meter.figures().server], [undefined, 0.3])
  readings.memory = 0.95
  assert.equal(meter.figures().server, 0.3, 'figures are worked out once a second')
  clock.advanceMs(1000)
  assert.equal(meter.figures().server, 0.95)
})

test('a report has the same figures as text, JSON and message; names that break a header are left out', () => {
  const { meter } = meterOf(['plain', 'a, b=1', 'x\r\ny'])
  const { text, json, message } = loadReport(meter.figures(), new Map([['kv_cache_utilization', 0.25]]))
  assert.equal(
    text,
    'TEXT cpu_utilization=0, mem_utilization=0.5, rps_fractional=0, eps=0, application_utilization=0.001, ' +
      'named_metrics.queue=0, named_metrics.kv_cache_utilization=0.25, named_metrics.pressure.plain=0',
  )
  assert.deepEqual(JSON.parse(json.slice('JSON '.length)), {
    cpu_utilization: 0,
    mem_utilization: 0.5,
    rps_fractional: 0,
    eps: 0,
    application_utilization: 0.001,
    named_metrics: { queue: 0, kv_cache_utilization: 0.25, 'pressure.plain': 0 },
  })
  // Field 9, a double.
  const at = message.indexOf(Buffer.from([9 * 8 + 1]))
  assert.equal(message.readDoubleLE(at + 1), 0.001)
  assert.ok(message.includes('pressure.plain'))
  const plain = loadReport(meter.figures(), new Map([['kv_cache_utilization', 0.25]]), false)
  assert.deepEqual((JSON.parse(plain.json.slice(5)) as { named_metrics: object }).named_metrics, { queue: 0 })
  assert.ok(!/plain|kv_cache/.test(plain.text) && !plain.message.includes('plain'))
})

test('a report names the models under the highest pressure', () => {
  const { clock, meter, models } = meterOf(Array.from({ length: 30 }, (_, i) => `m${i}`))
  meter.figures()
  clock.advanceMs(1000)
  for (const [i, model] of models.entries()) model.busyNs = i * 1e7
  const named = Object.keys(
    (JSON.parse(loadReport(meter.figures(), new Map()).json.slice(5)) as { named_metrics: object }).named_metrics,
  )
  assert.deepEqual(named, ['queue', ...[29, 28, 27, 26, 25, 24, 23, 22].map((i) => `pressure.m${i}`)])
})

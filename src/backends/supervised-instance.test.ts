import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { ServerError } from '../base/server-error.ts'
import { Batch } from '../model/batch.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { ask, type Asked } from './backend.contract.ts'
import { restartDelayMs, SupervisedInstance, type Worker, type WorkerEvents } from './supervised-instance.ts'

/** A Worker whose every step the test takes by hand. */
class FakeWorker implements Worker {
  readonly events: WorkerEvents
  readonly cancelled: InferenceRequest[] = []
  readonly prefetchDepth = 2
  readonly held: { readonly batch: Batch; readonly executed: () => void }[] = []
  isKilled = false
  isStopped = false

  constructor(events: WorkerEvents) {
    this.events = events
  }
  execute(batch: Batch, executed: () => void): void {
    this.held.push({ batch, executed })
  }
  cancel(request: InferenceRequest): void {
    this.cancelled.push(request)
  }
  stop(): Promise<void> {
    this.isStopped = true
    return Promise.resolve()
  }
  kill(): void {
    this.isKilled = true
  }
  /** Answers its first batch and goes on to the next. */
  answer(): void {
    for (const request of this.held[0]?.batch.requests ?? []) request.respond(InferenceResponse.of([]))
    this.executed()
  }
  executed(): void {
    this.held.shift()?.executed()
  }
}

type Settings = { maxExecutionMs?: number; launch?: (events: WorkerEvents) => Promise<Worker> }

async function underTest(settings: Settings = {}) {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const workers: FakeWorker[] = []
  const readiness: boolean[] = []
  const launchFake = (events: WorkerEvents): Promise<Worker> => {
    const worker = new FakeWorker(events)
    workers.push(worker)
    return Promise.resolve(worker)
  }
  let instance: SupervisedInstance | null = null
  instance = await SupervisedInstance.create(
    { clock, log },
    {
      name: 'm_0',
      modelName: 'm',
      launch: settings.launch ?? launchFake,
      onReadinessChange: () => readiness.push(instance?.isReady ?? true),
      maxExecutionMs: settings.maxExecutionMs ?? 0,
      tritonDeathText: (reason) => `model 'm' failed: ${reason}`,
    },
  )
  return { clock, log, workers, readiness, instance }
}

function execute(instance: SupervisedInstance, count = 1): { asked: Asked[]; executedCount: () => number } {
  const asked = Array.from({ length: count }, () => ask([]))
  let executedCount = 0
  instance.execute(
    new Batch(
      asked.map(({ request }) => request),
      count,
      () => executedCount++,
    ),
  )
  return { asked, executedCount: () => executedCount }
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('a worker that served is replaced at once; the delay of others doubles to a second, or to 30 s while none starts', () => {
  assert.equal(restartDelayMs(0, true), 0)
  assert.deepEqual(
    [1, 2, 3, 4, 5, 50].map((failures) => restartDelayMs(failures, true)),
    [100, 200, 400, 800, 1000, 1000],
  )
  assert.deepEqual(
    [1, 2, 3, 4, 9, 10, 50].map((failures) => restartDelayMs(failures, false)),
    [100, 200, 400, 800, 25_600, 30_000, 30_000],
  )
})

test('a first worker that does not come up fails the creation', async () => {
  const launch = (): Promise<Worker> => Promise.reject(new ServerError('INVALID_ARG', 'no such file'))
  await assert.rejects(underTest({ launch }), { code: 'INVALID_ARG', message: 'no such file' })
})

test('a death fails every held request once, frees the instance, and changes readiness', async () => {
  const { instance, workers, readiness } = await underTest()
  const { asked, executedCount } = execute(instance, 3)
  workers[0]?.events.onDeath('out of memory')
  assert.deepEqual(
    asked.map(({ responses }) => responses.map(({ error, isFinal }) => [error?.code, error?.message, isFinal])),
    Array.from({ length: 3 }, () => [['INTERNAL', "model 'm' failed: out of memory", true]]),
  )
  assert.equal(executedCount(), 1)
  assert.deepEqual(readiness, [true, false])
  workers[0]?.answer()
  assert.equal(executedCount(), 1, 'the dead worker has no voice')
})

test('a worker that ends before it served comes back after a delay, longer after each such end', async () => {
  const { instance, workers, clock } = await underTest()
  for (const [attempt, delayMs] of [100, 200, 400].entries()) {
    workers.at(-1)?.events.onDeath('crash')
    assert.equal(instance.isReady, false)
    clock.advanceMs(delayMs - 1)
    await settled()
    assert.equal(workers.length, attempt + 1)
    clock.advanceMs(1)
    await settled()
    assert.equal(workers.length, attempt + 2)
    assert.equal(instance.isReady, true)
  }
  assert.equal(instance.restartCount, 3)
})

test('a worker that has served, or lived for a second, is replaced at once, every time', async () => {
  const { instance, workers, clock } = await underTest()
  workers[0]?.events.onDeath('crash')
  clock.advanceMs(100)
  await settled()
  for (let death = 0; death < 10; death++) {
    if (death % 2 === 0) {
      execute(instance, 1)
      workers.at(-1)?.answer()
    } else clock.advanceMs(1000)
    workers.at(-1)?.events.onDeath('crash')
    clock.advanceMs(0)
    await settled()
    assert.equal(workers.length, 3 + death)
    assert.equal(instance.isReady, true)
  }
})

test('a restart that fails is tried again after a longer delay', async () => {
  let launches = 0
  const alive: FakeWorker[] = []
  const launch = (events: WorkerEvents): Promise<Worker> => {
    launches++
    if (launches === 2) return Promise.reject(new ServerError('INTERNAL', 'file is gone'))
    const worker = new FakeWorker(events)
    alive.push(worker)
    return Promise.resolve(worker)
  }
  const { clock, instance, log } = await underTest({ launch })
  alive[0]?.events.onDeath('crash')
  clock.advanceMs(100)
  await settled()
  assert.equal(instance.isReady, false)
  clock.advanceMs(200)
  await settled()
  assert.equal(launches, 3)
  assert.equal(instance.isReady, true)
  assert.deepEqual(
    log.entries.map(({ fields }) => [fields['reason'], fields['delay_ms']]),
    [
      ['crash', 100],
      ['file is gone', 200],
    ],
  )
})

test('while the worker is away, a batch is refused at once', async () => {
  const { instance, workers } = await underTest()
  workers[0]?.events.onDeath('crash')
  const { asked, executedCount } = execute(instance)
  assert.equal(asked[0]?.responses[0]?.error?.message, "model 'm' failed: its worker is being restarted")
  assert.equal(executedCount(), 1)
})

test('an execution longer than max_execution_ms ends the worker and fails the requests', async () => {
  const { instance, workers, clock } = await underTest({ maxExecutionMs: 50 })
  const { asked, executedCount } = execute(instance)
  clock.advanceMs(49)
  assert.equal(asked[0]?.responses.length, 0)
  clock.advanceMs(1)
  assert.equal(workers[0]?.isKilled, true)
  assert.match(asked[0]?.responses[0]?.error?.message ?? '', /longer than max_execution_ms \(50\)/)
  assert.equal(executedCount(), 1)
  workers[0]?.events.onDeath('it was ended')
  assert.equal(instance.restartCount, 1, 'the death that the watchdog caused counts once')
})

test('an execution that ends in time takes its watchdog along', async () => {
  const { instance, workers, clock } = await underTest({ maxExecutionMs: 50 })
  execute(instance)
  workers[0]?.answer()
  clock.advanceMs(1000)
  assert.equal(workers[0]?.isKilled, false)
  assert.equal(clock.pendingCount, 0)
})

test('batches parked behind one that executes are finished in order', async () => {
  const { instance, workers } = await underTest()
  assert.equal(instance.prefetchDepth, 2)
  const batches = [execute(instance), execute(instance), execute(instance)]
  const counts = (): number[] => batches.map(({ executedCount }) => executedCount())
  for (const expected of [
    [1, 0, 0],
    [1, 1, 0],
    [1, 1, 1],
  ]) {
    workers[0]?.answer()
    assert.deepEqual(counts(), expected)
  }
})

test('max_execution_ms counts for a parked batch from the moment it is the first', async () => {
  const { instance, workers, clock } = await underTest({ maxExecutionMs: 50 })
  execute(instance)
  const parked = execute(instance)
  clock.advanceMs(40)
  workers[0]?.answer()
  clock.advanceMs(49)
  assert.equal(parked.asked[0]?.responses.length, 0)
  clock.advanceMs(1)
  assert.equal(workers[0]?.isKilled, true)
  assert.match(parked.asked[0]?.responses[0]?.error?.message ?? '', /longer than max_execution_ms \(50\)/)
  assert.equal(clock.pendingCount, 0, 'the worker is replaced at once, and no watchdog is left')
})

test('a death fails parked batches too, each request once, and a parked request is cancelled at the worker', async () => {
  const { instance, workers } = await underTest()
  const batches = [execute(instance), execute(instance, 2), execute(instance)]
  batches[1]?.asked[0]?.request.cancel()
  assert.deepEqual(workers[0]?.cancelled, [batches[1]?.asked[0]?.request])
  workers[0]?.events.onDeath('crash')
  for (const { asked, executedCount } of batches) {
    assert.equal(executedCount(), 1)
    for (const { responses } of asked)
      assert.deepEqual(
        responses.map(({ error }) => error?.message),
        ["model 'm' failed: crash"],
      )
  }
  assert.equal(instance.prefetchDepth, 0)
})

test('closing lets the worker finish what is parked', async () => {
  const { instance, workers } = await underTest()
  const batches = [execute(instance), execute(instance)]
  const worker = workers[0] as FakeWorker
  worker.stop = () => {
    worker.answer()
    worker.answer()
    return Promise.resolve()
  }
  await instance.close()
  for (const { asked, executedCount } of batches) {
    assert.equal(executedCount(), 1)
    assert.deepEqual(
      asked[0]?.responses.map(({ error }) => error),
      [null],
    )
  }
})

test('a decoupled request that outlives its execution is failed by a death', async () => {
  const { instance, workers } = await underTest()
  const { asked, executedCount } = execute(instance)
  workers[0]?.executed()
  assert.equal(executedCount(), 1)
  workers[0]?.events.onDeath('crash')
  assert.equal(asked[0]?.responses[0]?.error?.message, "model 'm' failed: crash")
})

test('a cancelled request is reported to the worker that holds it', async () => {
  const { instance, workers } = await underTest()
  const { asked } = execute(instance)
  asked[0]?.request.cancel()
  assert.deepEqual(workers[0]?.cancelled, [asked[0]?.request])
})

test('a worker that says it cannot serve makes the instance unready, and its successor starts afresh', async () => {
  const { instance, workers, readiness, clock } = await underTest()
  workers[0]?.events.onReadiness?.(false)
  workers[0]?.events.onReadiness?.(false)
  assert.equal(instance.isReady, false)
  workers[0]?.events.onReadiness?.(true)
  workers[0]?.events.onReadiness?.(false)
  assert.deepEqual(readiness, [true, false, true, false])
  workers[0]?.events.onDeath('crash')
  clock.advanceMs(100)
  await settled()
  assert.equal(instance.isReady, true)
})

test('closing stops the worker, fails what it held, and cancels a pending restart', async () => {
  const { instance, workers, clock } = await underTest()
  const { asked, executedCount } = execute(instance)
  await instance.close()
  await instance.close()
  assert.equal(workers[0]?.isStopped, true)
  assert.equal(asked[0]?.responses.length, 1)
  assert.equal(executedCount(), 1)
  const other = await underTest()
  other.workers[0]?.events.onDeath('crash')
  await other.instance.close()
  assert.equal(other.clock.pendingCount + clock.pendingCount, 0)
})

test('closing during a restart waits for the new worker and stops it', async () => {
  const second = Promise.withResolvers<Worker>()
  const alive: FakeWorker[] = []
  const launch = (events: WorkerEvents): Promise<Worker> => {
    const worker = new FakeWorker(events)
    alive.push(worker)
    return alive.length === 1 ? Promise.resolve(worker) : second.promise
  }
  const { instance, clock } = await underTest({ launch })
  alive[0]?.events.onDeath('crash')
  clock.advanceMs(100)
  let isClosed = false
  const closing = instance.close().then(() => (isClosed = true))
  await settled()
  assert.equal(isClosed, false)
  const [, late] = alive
  assert.ok(late)
  second.resolve(late)
  await closing
  assert.equal(late.isStopped, true)
  assert.equal(instance.isReady, false)
})

test('a worker that dies while it is being installed is replaced', async () => {
  const alive: FakeWorker[] = []
  const launch = (events: WorkerEvents): Promise<Worker> => {
    const worker = new FakeWorker(events)
    alive.push(worker)
    if (alive.length === 1) events.onDeath('crash')
    return Promise.resolve(worker)
  }
  const { instance, clock } = await underTest({ launch })
  assert.equal(instance.isReady, false)
  clock.advanceMs(100)
  await settled()
  assert.equal(instance.isReady, true)
})

test('whatever the order of deaths, answers and cancels, it ends each request exactly once', async () => {
  const step = fc.constantFrom('execute', 'answer', 'die', 'cancel', 'wait')
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const { instance, workers, clock } = await underTest()
      const all: Asked[] = []
      let admitted = 0
      let executed = 0
      for (const name of steps) {
        const worker = workers.at(-1)
        if (name === 'execute' && admitted - executed <= instance.prefetchDepth) {
          const asked = ask([])
          all.push(asked)
          admitted++
          instance.execute(new Batch([asked.request], 1, () => executed++))
        } else if (name === 'answer' && admitted > executed) worker?.answer()
        else if (name === 'die' && instance.isReady) worker?.events.onDeath('crash')
        else if (name === 'cancel') all.at(-1)?.request.cancel()
        else if (name === 'wait') {
          clock.advanceMs(30_000)
          await settled()
        }
      }
      await instance.close()
      assert.equal(executed, admitted)
      for (const { responses } of all) assert.equal(responses.filter(({ isFinal }) => isFinal).length, 1)
    }),
    { numRuns: 200 },
  )
})

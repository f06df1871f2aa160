import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { findSetting, peakOf, type MeasuredPoint, type SearchSpace, type TuneVerdict } from './find-setting.ts'
import { keyOf, type Setting } from './setting.ts'

/** A server in formulas: an execution takes `fixedMs` and `rowMs` per row, on so many cores. */
type SimulatedServer = {
  readonly fixedMs: number
  readonly rowMs: number
  readonly cores: number
  readonly instanceMib: number
  readonly largestBatch?: number
}

const space: SearchSpace = {
  batchSizes: [4, 8, 16, 32, 64],
  delaysUs: [100, 500, 1000, 2000, 5000],
  instances: [1, 2, 3, 4, 6, 8],
  concurrencies: [1, 2, 4, 8, 16, 32, 64, 128],
}
const plain: Setting = { maxBatchSize: 8, delayUs: null, instances: 1 }

/** In a closed loop latency is requests at once over throughput, and at least one execution. */
function simulate(server: SimulatedServer, setting: Setting, concurrency: number): Omit<MeasuredPoint, 'step'> {
  const { fixedMs, rowMs, cores, instanceMib, largestBatch = Infinity } = server
  const working = Math.min(setting.instances, cores, concurrency)
  const rows =
    setting.delayUs === null ? 1 : Math.max(1, Math.min(setting.maxBatchSize, concurrency / setting.instances))
  const isFull = setting.delayUs === null || concurrency / setting.instances >= setting.maxBatchSize
  const executionMs = fixedMs + rowMs * rows + (isFull ? 0 : (setting.delayUs ?? 0) / 1000)
  const inferPerSecond = Math.min((working * rows) / executionMs, concurrency / executionMs) * 1000
  const point = { setting, concurrency, averageBatch: rows, memoryMib: 100 + instanceMib * setting.instances }
  if (setting.maxBatchSize > largestBatch && setting.delayUs !== null) {
    return { ...point, inferPerSecond: 0, latencyMs: 0, failure: 'out of memory' }
  }
  return {
    ...point,
    inferPerSecond,
    latencyMs: Math.max(executionMs, (concurrency / inferPerSecond) * 1000),
    failure: '',
  }
}

type Searched = TuneVerdict & { readonly measured: readonly MeasuredPoint[] }

async function search(
  server: SimulatedServer,
  limits: { latencyMs?: number; memoryMib?: number; points?: number } = {},
  current = plain,
  within = space,
  twist: (point: MeasuredPoint) => MeasuredPoint = (point) => point,
): Promise<Searched> {
  const measured: MeasuredPoint[] = []
  const verdict = await findSetting(
    current,
    within,
    { latencyMs: limits.latencyMs ?? Infinity, memoryMib: limits.memoryMib ?? Infinity },
    (step, setting, concurrency) => {
      if (measured.length >= (limits.points ?? Infinity) && step !== 'confirm') return Promise.resolve(null)
      const point = twist({ step, ...simulate(server, setting, concurrency) })
      measured.push(point)
      return Promise.resolve(point)
    },
  )
  return { ...verdict, measured }
}

describe('the search', () => {
  test('batches a model whose executions cost the same whatever their size', async () => {
    const { best } = await search({ fixedMs: 5, rowMs: 0.01, cores: 1, instanceMib: 1 })
    assert.equal(best?.setting.maxBatchSize, 64)
    assert.notEqual(best?.setting.delayUs, null)
    assert.equal(best?.setting.instances, 1)
  })

  test('leaves batching off where rows cost what they cost, and adds instances up to the cores', async () => {
    const { best, findings } = await search({ fixedMs: 0, rowMs: 5, cores: 3, instanceMib: 1 })
    assert.deepEqual(best?.setting, { maxBatchSize: 8, delayUs: null, instances: 3 })
    assert.match(findings.join('\n'), /4 instances: no gain: the knee; 3 it is/)
  })

  test('keeps the latency limit, and gives less throughput for it', async () => {
    const free = await search({ fixedMs: 5, rowMs: 0.5, cores: 2, instanceMib: 1 })
    const limited = await search({ fixedMs: 5, rowMs: 0.5, cores: 2, instanceMib: 1 }, { latencyMs: 20 })
    assert.ok((limited.best?.latencyMs ?? Infinity) <= 20)
    assert.ok((limited.best?.inferPerSecond ?? 0) < (free.best?.inferPerSecond ?? 0))
    assert.ok((limited.best?.inferPerSecond ?? 0) > (limited.asItIs?.inferPerSecond ?? Infinity))
  })

  test('adds no instance that passes the memory limit, and says so', async () => {
    const { best, findings } = await search({ fixedMs: 0, rowMs: 5, cores: 8, instanceMib: 100 }, { memoryMib: 350 })
    assert.equal(best?.setting.instances, 2)
    assert.match(findings.join('\n'), /3 instances: 400 MiB are more than the 350 allowed; 2 it is/)
  })

  test('gives up when even one request at a time takes too long', async () => {
    const { best, confirmed, findings } = await search(
      { fixedMs: 50, rowMs: 1, cores: 2, instanceMib: 1 },
      { latencyMs: 10 },
    )
    assert.equal(best, null)
    assert.equal(confirmed, null)
    assert.match(findings.join('\n'), /cannot be met: one request at a time takes 51\.0 ms, more than the 10 allowed/)
  })

  test('a batch size that fails is not chosen', async () => {
    const { best } = await search({ fixedMs: 5, rowMs: 0.01, cores: 1, instanceMib: 1, largestBatch: 16 })
    assert.equal(best?.setting.maxBatchSize, 16)
  })

  const failing = (isFailing: (point: MeasuredPoint) => boolean, failure: string) => (point: MeasuredPoint) =>
    isFailing(point) ? { ...point, failure } : point

  test('a setting with which requests fail under some load is not chosen, however fast it is under another', async () => {
    const crowded = failing(
      ({ setting, concurrency }) => setting.delayUs !== null && concurrency >= 16,
      '[500] too many rows',
    )
    const server = { fixedMs: 5, rowMs: 0.01, cores: 1, instanceMib: 1 }
    const { best, findings } = await search(server, {}, plain, space, crowded)
    assert.equal(best?.setting.delayUs, null)
    assert.match(findings.join('\n'), /batches of up to 4, delay 0 us, 1 instance, 16 at once: \[500\] too many rows/)
  })

  test('failures that the model has anyway, and refusals of a full queue, do not speak against a setting', async () => {
    const server = { fixedMs: 5, rowMs: 0.01, cores: 1, instanceMib: 1 }
    const anyway = failing(({ concurrency }) => concurrency >= 16, '[500] it is tired')
    assert.notEqual((await search(server, {}, plain, space, anyway)).best?.setting.delayUs, null)
    const full = failing(
      ({ setting, concurrency }) => setting.delayUs !== null && concurrency >= 64,
      '[503] queue is full',
    )
    assert.notEqual((await search(server, {}, plain, space, full)).best?.setting.delayUs, null)
  })

  test('what was good by chance and is no better than what the model has when looked at for longer is not recommended', async () => {
    const lucky = (point: MeasuredPoint): MeasuredPoint =>
      point.step !== 'confirm' && point.setting.delayUs !== null
        ? { ...point, inferPerSecond: point.inferPerSecond * 2 }
        : point
    const server = { fixedMs: 0, rowMs: 5, cores: 1, instanceMib: 1 }
    const { best, confirmed, findings } = await search(server, {}, plain, space, lucky)
    assert.deepEqual(best?.setting, plain)
    assert.deepEqual(confirmed?.setting, plain)
    assert.match(findings.join('\n'), /confirmation: batches of up to .* no better than as it is/)
  })

  test('the gain is told against the better of two looks at what there was', async () => {
    const disturbed = (point: MeasuredPoint): MeasuredPoint =>
      point.step === 'confirm' && point.setting.delayUs === null ? { ...point, inferPerSecond: 1 } : point
    const server = { fixedMs: 5, rowMs: 0.01, cores: 1, instanceMib: 1 }
    const { asItIs, best } = await search(server, {}, plain, space, disturbed)
    assert.notDeepEqual(best?.setting, plain)
    assert.ok((asItIs?.inferPerSecond ?? 0) > 100)
  })

  test('what passes the limit when looked at for longer, whatever the load, is not recommended', async () => {
    const tiring = (point: MeasuredPoint): MeasuredPoint =>
      point.step === 'confirm' ? { ...point, latencyMs: 1000 } : point
    const server = { fixedMs: 5, rowMs: 0.01, cores: 1, instanceMib: 1 }
    const { best, findings } = await search(server, { latencyMs: 50 }, plain, space, tiring)
    assert.equal(best, null)
    assert.match(findings.join('\n'), /confirmation of .* takes 1000\.0 ms, more than the 50 allowed/)
  })

  test('instances are counted from one, also where the model has more than it needs', async () => {
    const server = { fixedMs: 0, rowMs: 5, cores: 2, instanceMib: 1 }
    const { best } = await search(server, {}, { ...plain, instances: 8 })
    assert.deepEqual(best?.setting, { ...plain, instances: 2 })
  })

  test('a model that is as good as it gets stays as it is', async () => {
    const current = { maxBatchSize: 64, delayUs: 500, instances: 1 }
    const { best } = await search({ fixedMs: 5, rowMs: 0.01, cores: 1, instanceMib: 1 }, {}, current)
    assert.deepEqual(best?.setting, current)
  })

  test('the ends of the search are named where the best is at one', async () => {
    const { findings } = await search({ fixedMs: 0, rowMs: 5, cores: 64, instanceMib: 1 })
    assert.match(findings.join('\n'), /more may be had with a higher --max-instances/)
  })

  test('goes through baseline, batching, delay, instances and confirmation, in this order', async () => {
    const { measured } = await search(
      { fixedMs: 5, rowMs: 0.5, cores: 2, instanceMib: 1 },
      {},
      { ...plain, instances: 4 },
    )
    const steps = measured.map((point) => point.step).filter((step, at, all) => step !== all[at - 1])
    assert.deepEqual(steps, ['as it is', 'baseline', 'batching', 'delay', 'instances', 'confirm', 'less load'])
  })

  test('leaves batching alone where there is nothing to try', async () => {
    const without = { ...space, batchSizes: [], delaysUs: [] }
    const { best, measured } = await search(
      { fixedMs: 1, rowMs: 1, cores: 2, instanceMib: 1 },
      {},
      { ...plain, maxBatchSize: 0 },
      without,
    )
    assert.deepEqual(best?.setting, { maxBatchSize: 0, delayUs: null, instances: 2 })
    assert.ok(measured.every((point) => point.setting.delayUs === null))
  })

  test('measures nothing twice, and confirms the best at the load it was found at', async () => {
    const { measured, best, confirmed } = await search({ fixedMs: 2, rowMs: 0.3, cores: 2, instanceMib: 1 })
    const keys = measured
      .filter(({ step }) => step !== 'confirm')
      .map((point) => `${keyOf(point.setting)}@${point.concurrency}`)
    assert.equal(new Set(keys).size, keys.length)
    assert.equal(confirmed?.concurrency, best?.concurrency)
  })

  test('stops when the time is up with the best so far, which it still confirms', async () => {
    const { best, confirmed, isTimeUp } = await search(
      { fixedMs: 5, rowMs: 0.01, cores: 1, instanceMib: 1 },
      { points: 12 },
    )
    assert.equal(isTimeUp, true)
    assert.notEqual(best, null)
    assert.deepEqual(confirmed?.setting, best?.setting)
  })

  test('whatever the server: the limits hold, and nothing better within them was measured and passed over', async () => {
    const servers = fc.record({
      fixedMs: fc.double({ min: 0.1, max: 50, noNaN: true }),
      rowMs: fc.double({ min: 0.01, max: 10, noNaN: true }),
      cores: fc.integer({ min: 1, max: 8 }),
      instanceMib: fc.integer({ min: 1, max: 500 }),
    })
    const limit = fc.record({
      latencyMs: fc.integer({ min: 1, max: 500 }),
      memoryMib: fc.integer({ min: 101, max: 2000 }),
    })
    await fc.assert(
      fc.asyncProperty(servers, limit, async (server, limits) => {
        const { best, measured } = await search(server, limits)
        const allowed = measured.filter(
          (point) => point.latencyMs <= limits.latencyMs && (point.memoryMib ?? 0) <= limits.memoryMib,
        )
        assert.equal(best === null, allowed.length === 0)
        if (best === null) return
        assert.ok(
          allowed.some(
            (point) => point.concurrency === best.concurrency && keyOf(point.setting) === keyOf(best.setting),
          ),
        )
        // Gains of up to 5 % per step, and 3 % for a smaller load, are not taken.
        assert.ok(allowed.every((point) => point.inferPerSecond <= best.inferPerSecond * 1.09))
        assert.ok(measured.length < 150, `${measured.length} points`)
      }),
      { numRuns: 300 },
    )
  })
})

test('the peak is the smallest load with nearly all the throughput', () => {
  const at = (concurrency: number, inferPerSecond: number, latencyMs: number): MeasuredPoint => ({
    step: 'baseline',
    setting: plain,
    concurrency,
    inferPerSecond,
    latencyMs,
    averageBatch: 1,
    memoryMib: null,
    failure: '', // prettier-ignore
  })
  const curve = [at(1, 100, 10), at(2, 195, 10), at(4, 199, 20), at(8, 200, 40)]
  assert.equal(peakOf(curve, { latencyMs: Infinity, memoryMib: Infinity })?.concurrency, 2)
  assert.equal(peakOf(curve, { latencyMs: 5, memoryMib: Infinity }), null)
})

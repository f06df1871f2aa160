import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { compileFakeCuda, type FakeCuda } from '../../../../test/fakes/fake-cuda.ts'
import { addSubModel, identityModel } from '../../../../test/fixtures/onnx/build-onnx.ts'
import { framed, OnnxHarness } from '../../../../test/fixtures/onnx/onnx-harness.ts'
import { SystemClock } from '../../../base/clock.ts'
import { emptyModelConfig } from '../../../config/model-config.ts'
import { deviceBytes } from '../../../cuda/device-bytes.ts'
import { Gpus } from '../../../cuda/gpus.ts'
import { onnxRuntimeLibrary } from '../onnx-runtime-package.ts'
import type { OnnxRunner, OnnxSession, RunRequest, RunResult } from '../onnx-session.ts'
import { parseOnnxSettings } from '../session-settings.ts'
import { GpuGraphs } from './gpu-graphs.ts'
import { NativeBinding } from './native-binding.ts'
import { viewOf } from './ort-library.ts'

// Memory of the host stands in for a GPU: the copies and the programs are the same, the provider is the CPU's.

const found = compileFakeCuda()
const skip = typeof found === 'string' ? found : false
const fake = found as FakeCuda
const place = { deviceId: 0, hasGraphs: false, isBusyWaiting: false, batchSizes: [] as number[] }
const { session: settings } = parseOnnxSettings(emptyModelConfig())

let harness: OnnxHarness
let gpus: Gpus
let binding: NativeBinding
before(async () => {
  if (skip !== false) return
  harness = await OnnxHarness.open()
  gpus = new Gpus({
    count: 1,
    driverLibrary: fake.file,
    ofTests: true,
    poolBytes: new Map([[0, 4096]]),
    pinnedBytes: 1 << 20,
  })
  const library = { file: onnxRuntimeLibrary(), origin: 'bundled', gpuObstacle: null, folders: [] }
  binding = NativeBinding.open(new SystemClock(), { maxThreads: 0, globalThreads: null, library, gpus })
})
after(async () => {
  if (skip !== false) return
  await gpus.close()
  await binding.close()
  await harness.close()
})

const open = async (model: Parameters<OnnxHarness['write']>[0], traits = place): Promise<OnnxSession> => {
  const { files } = await harness.write(model)
  return binding.createSession(`${files.versionDirectory}/model.onnx`, settings, traits)
}
const run = (runner: OnnxRunner, request: Omit<RunRequest, 'place'>): Promise<RunResult> =>
  new Promise((resolve) => runner.run({ ...request, place: 'offloaded' }, resolve))
const int32 = (...values: number[]): Uint8Array => new Uint8Array(Int32Array.from(values).buffer)
const numbers = (bytes: Uint8Array | undefined): number[] => [...new Int32Array(Uint8Array.from(bytes ?? []).buffer)]
const row = (first: number): number[] => Array.from({ length: 16 }, (_, i) => first + i)

function outputsOf(result: RunResult): number[][] {
  assert.equal(result.error, null)
  const outputs = result.outputs.map(({ bytes }) => numbers(bytes))
  result.release?.()
  return outputs
}

test('parts of several requests become one batch, and the outputs come back', { skip }, async () => {
  const session = await open(addSubModel('batch', 'INT32'))
  const runner = session.createRunner()
  assert.equal(session.canRunInline, false)
  for (let round = 0; round < 20; round++) {
    const input = { shape: [2, 16], bytes: new Uint8Array(0), parts: [int32(...row(round)), int32(...row(100))] }
    const ones = { shape: [2, 16], bytes: int32(...Array.from({ length: 32 }, () => 1)) }
    const [sum, difference] = outputsOf(await run(runner, { inputs: [input, ones], outputs: [0, 1] }))
    assert.deepEqual(sum, [...row(round + 1), ...row(101)])
    assert.deepEqual(difference, [...row(round - 1), ...row(99)])
  }
  runner.close()
  await session.close()
})

test('inputs in regions of the GPU are read there, and outputs go to regions without the host', { skip }, async () => {
  const session = await open(addSubModel('batch', 'INT32'))
  const runner = session.createRunner()
  const inRegion = fake.allocate(64)
  viewOf(inRegion.address, 64).set(int32(...row(7)))
  const region = fake.allocate(256)
  const input = { shape: [1, 16], bytes: deviceBytes(0, inRegion.address, 64) }
  const ones = { shape: [1, 16], bytes: int32(...Array.from({ length: 16 }, () => 1)) }
  const bytes = deviceBytes(0, region.address, 256)
  const result = await run(runner, {
    inputs: [input, ones],
    outputs: [0, 1],
    outputPlaces: {
      rows: 1,
      isBatched: true,
      places: [
        { output: 0, firstRow: 0, rowCount: 1, bytes: bytes.subarray(64, 128) },
        // Too small for a row: this output comes by way of the host.
        { output: 1, firstRow: 0, rowCount: 1, bytes: bytes.subarray(128, 150) },
      ],
    },
  })
  assert.equal(result.error, null)
  assert.deepEqual(
    result.outputs.map(({ isPlaced }) => isPlaced ?? false),
    [true, false],
  )
  assert.deepEqual(numbers(viewOf(region.address + 64, 64)), row(8))
  assert.deepEqual(numbers(result.outputs[1]?.bytes), row(6))
  assert.ok(
    bytes.every((byte) => byte === 0),
    'what stands for memory of the GPU is never written',
  )
  result.release?.()
  runner.close()
  await session.close()
})

test('tensors of no elements pass', { skip }, async () => {
  const session = await open(addSubModel('batch', 'INT32'))
  const runner = session.createRunner()
  const empty = { shape: [0, 16], bytes: new Uint8Array(0) }
  const result = await run(runner, { inputs: [empty, empty], outputs: [0, 1] })
  assert.equal(result.error, null)
  assert.deepEqual(
    result.outputs.map(({ shape, bytes }) => [shape, bytes.length]),
    [
      [[0, 16], 0],
      [[0, 16], 0],
    ],
  )
  result.release?.()
  runner.close()
  await session.close()
})

test('texts go by way of the host, and a wrong number of bytes is refused', { skip }, async () => {
  const session = await open(identityModel('BYTES', [null]))
  const runner = session.createRunner()
  const result = await run(runner, { inputs: [{ shape: [2], bytes: framed('a', 'bc') }], outputs: [0] })
  assert.equal(result.error, null)
  assert.deepEqual([...(result.outputs[0]?.bytes ?? [])], [...framed('a', 'bc')])
  result.release?.()
  // Those of a batch come in as many parts as it has requests.
  const parts = [framed('a', 'bc'), framed('def')]
  const joined = await run(runner, { inputs: [{ shape: [3], bytes: new Uint8Array(0), parts }], outputs: [0] })
  assert.equal(joined.error, null)
  assert.deepEqual([...(joined.outputs[0]?.bytes ?? [])], [...framed('a', 'bc', 'def')])
  joined.release?.()
  runner.close()
  await session.close()
  const plain = await open(addSubModel('batch', 'INT32'))
  const other = plain.createRunner()
  const short = { shape: [1, 16], bytes: int32(1) }
  const refused = await run(other, { inputs: [short, short], outputs: [0] })
  assert.match(refused.error?.message ?? '', /must have 64 bytes, got 4/)
  other.close()
  await plain.close()
})

test(
  'a batch that the GPU has no memory for fails alone, and memory above the pool is given back',
  { skip },
  async () => {
    const session = await open(identityModel('FP32', [null]))
    const runner = session.createRunner()
    const { usedBytes } = gpus.pool(0)
    const of = (count: number) => ({ inputs: [{ shape: [count], bytes: new Uint8Array(4 * count) }], outputs: [0] })
    const refused = await run(runner, of(1 << 28))
    assert.equal(refused.error?.code, 'UNAVAILABLE')
    assert.match(refused.error?.message ?? '', /GPU 0 has no memory left for .* bytes of inputs and outputs/)
    const before = fake.usedBytes()
    outputsOf(await run(runner, of(1 << 16)))
    outputsOf(await run(runner, of(8)))
    assert.ok(fake.usedBytes() <= before + 4096, 'only what fits into the pool is kept')
    runner.close()
    await session.close()
    await gpus.memory(0)
    assert.equal(gpus.pool(0).usedBytes, usedBytes)
  },
)

test(
  'a batch is filled up to a size of its model with its own rows, and clients see none of that',
  { skip },
  async () => {
    const session = await open(addSubModel('batch', 'INT32'), { ...place, batchSizes: [4, 16] })
    const runner = session.createRunner()
    const region = fake.allocate(64 * 8)
    for (const rows of [3, 1, 4, 5, 16, 20]) {
      const values = Array.from({ length: rows }, (_, i) => row(i * 100))
      const parts = values.map((each) => int32(...each))
      const input = { shape: [rows, 16], bytes: new Uint8Array(0), parts }
      const ones = { shape: [rows, 16], bytes: int32(...Array.from({ length: rows * 16 }, () => 1)) }
      const places = [{ output: 1, firstRow: 0, rowCount: rows, bytes: deviceBytes(0, region.address, 64 * 8) }]
      const outputPlaces = rows > 8 ? null : { rows, isBatched: true, places }
      const result = await run(runner, { inputs: [input, ones], outputs: [0, 1], outputPlaces })
      assert.equal(result.error, null)
      assert.deepEqual(result.outputs[0]?.shape, [rows, 16])
      assert.deepEqual(
        numbers(result.outputs[0]?.bytes),
        values.flatMap((each) => each.map((value) => value + 1)),
      )
      if (outputPlaces !== null) {
        assert.deepEqual(
          numbers(viewOf(region.address, 64 * rows)),
          values.flatMap((each) => each.map((value) => value - 1)),
        )
      }
      result.release?.()
    }
    const short = { shape: [3, 16], bytes: int32(...row(1)) }
    const refused = await run(runner, { inputs: [short, short], outputs: [0] })
    assert.match(refused.error?.message ?? '', /must have 192 bytes, got 64/)
    runner.close()
    await session.close()
  },
)

test('a shape is recorded when it comes again, has one number and one address, and a failed recording ends it all', () => {
  const said: string[] = []
  const graphs = new GpuGraphs((key, value) => said.push(`${key}=${value}`))
  const lane = { deviceAddress: 4096, isOverBudget: false }
  const run = (key: string | null, where = lane, isGood = true): boolean => {
    const isRecorded = graphs.choose(key, where)
    graphs.finished(isGood)
    return isRecorded
  }
  assert.equal(run('1x3', lane, false), false, 'a failure without a graph spoils nothing')
  assert.deepEqual([run('1x3'), run('1x3'), run('2x3'), run('2x3'), run('1x3')], [true, false, false, true, false])
  run(null)
  run('1x3', { ...lane, deviceAddress: 8192 })
  run('1x3', { ...lane, deviceAddress: 8192 })
  run('1x3', { ...lane, isOverBudget: true })
  assert.deepEqual(
    said,
    ['-1', '1', '-1', '2', '1', '-1', '3', '-1'].map((id) => `gpu_graph_id=${id}`),
  )
  for (let size = 0; size < 1000; size++) run(`${size}x8`)
  for (let size = 0; size < 100; size++) for (const _ of [1, 2]) run(`${size}x9`)
  assert.deepEqual([graphs.count, said.at(-1)], [32, 'gpu_graph_id=-1'])
  const busy = new GpuGraphs(() => undefined)
  const isRecorded = (mayRecord: boolean): boolean => {
    const isNow = busy.choose('1', lane, mayRecord)
    busy.finished(true)
    return isNow
  }
  assert.deepEqual([true, false, false, true, false].map(isRecorded), [false, false, false, true, false])
  assert.equal(busy.count, 1, 'a shape that may not be recorded now is recorded later')
  const other = new GpuGraphs(() => undefined)
  other.choose('1', lane)
  other.finished(true)
  assert.equal(other.choose('1', lane), true)
  assert.equal(other.isRecording, true)
  other.finished(false)
  assert.equal(other.isSpoiled, true)
})

test('while a session is made a request runs without being recorded, and a warm-up waits', { skip }, async () => {
  const session = await open(addSubModel('batch', 'INT32'), { ...place, hasGraphs: true })
  const runner = session.createRunner()
  const input = { shape: [1, 16], bytes: int32(...row(1)) }
  const request = { inputs: [input, input], outputs: [0] }
  outputsOf(await run(runner, request))
  let made = (): void => undefined
  const making = gpus.gate.among(() => new Promise<void>((resolve) => (made = resolve)))
  outputsOf(await run(runner, request))
  let isDone = false
  const warmedUp = run(runner, { ...request, isPatient: true }).then((result) => {
    isDone = true
    return result
  })
  await gpus.memory(0)
  assert.equal(isDone, false)
  made()
  await making
  outputsOf(await warmedUp)
  runner.close()
  await session.close()
})

test(
  'with CUDA graphs all sizes of a batch find the memory of the largest, and inputs in regions are copied there',
  { skip },
  async () => {
    const session = await open(addSubModel('batch', 'INT32'), { ...place, hasGraphs: true, batchSizes: [1, 2, 4] })
    const runner = session.createRunner()
    const inRegion = fake.allocate(64)
    viewOf(inRegion.address, 64).set(int32(...row(7)))
    const allocated: number[] = []
    for (const rows of [1, 1, 1, 2, 2, 3, 4]) {
      const ones = { shape: [rows, 16], bytes: int32(...Array.from({ length: rows * 16 }, () => 1)) }
      const bytes =
        rows === 1 ? deviceBytes(0, inRegion.address, 64) : int32(...Array.from({ length: rows * 16 }, () => 6))
      const [sum] = outputsOf(await run(runner, { inputs: [{ shape: [rows, 16], bytes }, ones], outputs: [0] }))
      assert.deepEqual(sum, rows === 1 ? row(8) : Array.from({ length: rows * 16 }, () => 7))
      allocated.push(fake.usedBytes())
    }
    assert.equal(new Set(allocated).size, 1, 'the memory of the first run is that of all')
    runner.close()
    await session.close()
  },
)

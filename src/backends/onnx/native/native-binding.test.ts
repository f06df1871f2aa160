import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { addSubModel, identityModel, loopModel } from '../../../../test/fixtures/onnx/build-onnx.ts'
import {
  addSubInputs,
  framed,
  inferOn,
  int32Values,
  OnnxHarness,
  requestOf,
} from '../../../../test/fixtures/onnx/onnx-harness.ts'
import { SystemClock } from '../../../base/clock.ts'
import { ManualClock } from '../../../../test/fakes/manual-clock.ts'
import { Batch } from '../../../model/batch.ts'
import type { InferenceResponse } from '../../../model/inference-response.ts'
import { Tensor } from '../../../tensor/tensor.ts'
import { loopInputs } from '../onnx-backend.contract.ts'
import type { RunResult } from '../onnx-session.ts'
import { parseOnnxSettings } from '../session-settings.ts'
import { emptyModelConfig } from '../../../config/model-config.ts'
import { OnnxInstance } from '../onnx-instance.ts'
import { PlaceByTime } from '../execution-place.ts'
import { NativeBinding } from './native-binding.ts'

/** More iterations than any test waits for: only termination ends such a run. */
const endless = 1e15

let harness: OnnxHarness
before(async () => {
  harness = await OnnxHarness.open()
})
after(() => harness.close())

async function writtenModel(model: Parameters<OnnxHarness['write']>[0]): Promise<string> {
  const { files } = await harness.write(model)
  return `${files.versionDirectory}/model.onnx`
}

const { session: plainSettings } = parseOnnxSettings(emptyModelConfig())

test('over 100,000 runs with errors mixed in, every OrtValue and OrtStatus is released', async () => {
  const binding = NativeBinding.open(new SystemClock())
  const { counts } = binding.library
  const before = { ...counts }
  const session = await binding.createSession(
    await writtenModel(addSubModel('batch', 'INT32', 'length')),
    plainSettings,
  )
  const strings = await binding.createSession(await writtenModel(identityModel('BYTES', [null])), plainSettings)
  const runner = session.createRunner()
  const stringRunner = strings.createRunner()
  let errorCount = 0
  let okCount = 0
  const finished = (result: RunResult): void => {
    if (result.error === null) {
      okCount++
      result.release?.()
    } else errorCount++
  }
  const input = (rows: number, elements: number) => ({
    shape: [rows, elements],
    bytes: new Uint8Array(rows * elements * 4),
  })
  const good = [input(1, 16), input(2, 16), input(1, 2000), input(3, 700)]
  const uneven = input(5, 16)
  const wrongRank = { shape: [16], bytes: new Uint8Array(64) }
  const cutOff = { shape: [1, 16], bytes: new Uint8Array(60) }
  const misaligned = { shape: [1, 16], bytes: new Uint8Array(new ArrayBuffer(80), 3, 64) }
  const text = { shape: [2], bytes: framed('one', Uint8Array.of(0, 1)) }
  const badText = { shape: [3], bytes: framed('one') }
  for (let i = 0; i < 100_000; i++) {
    const kind = i % 20
    const one = good[i % 4] as ReturnType<typeof input>
    if (kind === 3) runner.run({ inputs: [good[1] ?? null, uneven], outputs: [0, 1], place: 'inline' }, finished)
    else if (kind === 7) runner.run({ inputs: [one, wrongRank], outputs: [0, 1], place: 'inline' }, finished)
    else if (kind === 9) runner.run({ inputs: [cutOff, cutOff], outputs: [0, 1], place: 'inline' }, finished)
    else if (kind === 11) runner.run({ inputs: [one, null], outputs: [0, 1], place: 'inline' }, finished)
    else if (kind === 13) stringRunner.run({ inputs: [badText], outputs: [0], place: 'inline' }, finished)
    else if (kind === 15) stringRunner.run({ inputs: [text], outputs: [0], place: 'inline' }, finished)
    else if (kind === 17) runner.run({ inputs: [misaligned, misaligned], outputs: [1], place: 'inline' }, finished)
    else runner.run({ inputs: [one, one], outputs: [0, 1], place: 'inline' }, finished)
  }
  assert.equal(errorCount, 25_000)
  assert.equal(okCount, 75_000)
  assert.ok(counts.valuesCreated - before.valuesCreated > 50_000, 'values were made and counted')
  assert.ok(counts.statusesCreated - before.statusesCreated >= 10_000, 'statuses were made and counted')
  assert.equal(counts.statuses, before.statuses)
  runner.close()
  stringRunner.close()
  assert.equal(counts.values, before.values)
  await session.close()
  await strings.close()
  await binding.close()
})

test('the memory of a large output is freed when its response is released, and its view is empty from then on', async () => {
  const loaded = await harness.load(identityModel('FP32', [null]), { config: { maxBatchSize: 0 } })
  const input = new Tensor('INPUT', 'FP32', [100_000], new Uint8Array(400_000))
  const response = await loaded.infer([input])
  const { bytes } = response.outputs[0] as Tensor
  assert.equal(bytes.byteLength, 400_000)
  response.release()
  assert.equal(bytes.byteLength, 0)
  await loaded.close()
})

test('cancelling the only client of a long run ends it', async () => {
  const loaded = await harness.load(loopModel())
  const responses: InferenceResponse[] = []
  const request = requestOf(loopInputs(endless, 64), (response) => responses.push(response))
  const executed = new Promise<void>((resolve) => loaded.instance.execute(new Batch([request], 1, resolve)))
  request.cancel()
  await executed
  assert.deepEqual(
    responses.map((response) => response.error?.code),
    ['CANCELLED'],
  )
  // The session and the instance are as good as before.
  const next = await loaded.infer(loopInputs(3, 64))
  assert.equal(next.error, null)
  await loaded.close()
})

test('a run longer than max_execution_ms is ended and says so', async () => {
  const clock = new ManualClock()
  const binding = NativeBinding.open(clock)
  const session = await binding.createSession(await writtenModel(loopModel()), plainSettings)
  const instance = new OnnxInstance({
    clock,
    name: 'loop_0',
    modelName: 'loop',
    runner: session.createRunner(),
    place: new PlaceByTime(100, 'offloaded'),
    inputIndex: new Map([
      ['TRIPS', 0],
      ['INPUT', 1],
    ]),
    layout: null,
    inputCount: 2,
    outputs: [{ name: 'OUTPUT', dataType: 'FP32', sessionIndex: 0 }],
    maxExecutionMs: 500,
  })
  const answer = inferOn(instance, loopInputs(endless, 64))
  clock.advanceMs(499)
  clock.advanceMs(1)
  const { error } = await answer
  assert.equal(error?.code, 'INTERNAL')
  assert.match(error?.message ?? '', /'loop' took longer than max_execution_ms \(500\)/)
  assert.equal(clock.pendingCount, 0)
  assert.equal((await inferOn(instance, loopInputs(2, 64))).error, null)
  await instance.close()
  await session.close()
  await binding.close()
})

test('closing an instance ends the run it is in', async () => {
  const loaded = await harness.load(loopModel())
  const answer = loaded.infer(loopInputs(endless, 64))
  await loaded.close()
  assert.notEqual((await answer).error, null)
})

test('more long runs than libuv has threads go on at once, and files can be read meanwhile', async () => {
  const instanceCount = 6
  const crowded = await OnnxHarness.open({ 'max-threads': String(instanceCount) })
  const loaded = await crowded.load(loopModel(8))
  const instances = [loaded.instance]
  for (let i = 1; i < instanceCount; i++) instances.push(await loaded.createInstance(i))
  const requests = instances.map(() =>
    requestOf(loopInputs(endless, 8), (response) => codes.push(response.error?.code ?? 'ok')),
  )
  const codes: string[] = []
  const executed = instances.map(
    (instance, i) => new Promise<void>((resolve) => instance.execute(new Batch([requests[i] as never], 1, resolve))),
  )
  // If the runs held libuv's threads, this would wait for runs that never end.
  await stat(import.meta.filename)
  assert.deepEqual(codes, [])
  for (const request of requests) request.cancel()
  await Promise.all(executed)
  assert.deepEqual(
    codes,
    requests.map(() => 'CANCELLED'),
  )
  await loaded.close()
  await crowded.close()
})

test('runs that wait for a thread begin in order, and one that is cancelled meanwhile never begins', async () => {
  const narrow = await OnnxHarness.open({ 'max-threads': '1' })
  const loaded = await narrow.load(loopModel(8))
  const second = await loaded.createInstance(1)
  const third = await loaded.createInstance(2)
  const order: string[] = []
  const start = (instance: typeof second, trips: number, name: string) => {
    const request = requestOf(loopInputs(trips, 8), (response) => order.push(`${name} ${response.error?.code ?? 'ok'}`))
    return { request, executed: new Promise<void>((resolve) => instance.execute(new Batch([request], 1, resolve))) }
  }
  const a = start(loaded.instance, endless, 'first')
  const b = start(second, endless, 'second')
  const c = start(third, 2, 'third')
  b.request.cancel()
  await b.executed
  assert.deepEqual(order, ['second CANCELLED'])
  a.request.cancel()
  await Promise.all([a.executed, c.executed])
  assert.deepEqual(order, ['second CANCELLED', 'first CANCELLED', 'third ok'])
  await loaded.close()
  await narrow.close()
})

test('inputs stay in place while a run reads them, however much garbage is collected', async () => {
  const loaded = await harness.load(addSubModel('batch', 'INT32', 65536), { parameters: { execution: 'offloaded' } })
  for (let i = 0; i < 20; i++) {
    const answer = loaded.infer(addSubInputs(1, i, 1, 65536))
    for (let j = 0; j < 50; j++) Buffer.alloc(1 << 20)
    const response = await answer
    assert.equal(int32Values(response.outputs[0])[65535], i + 1)
    response.release()
  }
  await loaded.close()
})

test('the library stays in memory when garbage is collected', async () => {
  // In a process of its own: a library that was unloaded ends whoever calls it.
  const program = `
    import { NativeBinding } from ${JSON.stringify(new URL('native-binding.ts', import.meta.url).href)}
    import { SystemClock } from ${JSON.stringify(new URL('../../../base/clock.ts', import.meta.url).href)}
    const binding = NativeBinding.open(new SystemClock())
    for (let i = 0; i < 5; i++) {
      globalThis.gc()
      await new Promise((resolve) => setImmediate(resolve))
    }
    const session = await binding.createSession(process.argv[1], ${JSON.stringify({ ...plainSettings })})
    await session.close()
    await binding.close()
    console.log('alive')
  `
  const model = await writtenModel(addSubModel())
  const args = ['--expose-gc', '--input-type=module', '-e', program, model]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  assert.equal(stdout, 'alive\n')
})

test('a thread that was needed for loading alone ends when that is over; one that runs models stays', async () => {
  const clock = new ManualClock()
  const binding = NativeBinding.open(clock)
  const model = await writtenModel(identityModel('FP32', [null]))
  const loaded = await binding.createSession(model, plainSettings)
  assert.equal(binding.threadCount, 1)
  clock.advanceUs(3e6)
  assert.equal(binding.threadCount, 0)
  const runner = loaded.createRunner()
  const run = (): Promise<RunResult> =>
    new Promise((resolve) => {
      const input = { shape: [4], bytes: new Uint8Array(16) }
      runner.run({ inputs: [input], outputs: [0], place: 'offloaded' }, resolve)
    })
  const result = await run()
  assert.equal(result.error, null)
  clock.advanceUs(10e6)
  assert.equal(binding.threadCount, 1)
  runner.close()
  await loaded.close()
  await binding.close()
})

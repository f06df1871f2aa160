import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { compileFakeCuda, type FakeCuda } from '../../../../test/fakes/fake-cuda.ts'
import { identityModel } from '../../../../test/fixtures/onnx/build-onnx.ts'
import { OnnxHarness } from '../../../../test/fixtures/onnx/onnx-harness.ts'
import { until } from '../../../../test/until.ts'
import { SystemClock } from '../../../base/clock.ts'
import { configMessage, emptyModelConfig } from '../../../config/model-config.ts'
import { silentLog } from '../../../base/log.ts'
import { OnnxBackend } from '../onnx-backend.ts'
import { Gpus } from '../../../cuda/gpus.ts'
import { onnxRuntimeLibrary } from '../onnx-runtime-package.ts'
import type { OnnxRunner, OnnxSession, RunResult } from '../onnx-session.ts'
import { parseOnnxSettings } from '../session-settings.ts'
import { NativeBinding } from './native-binding.ts'

// Memory of the host stands in for a GPU, whose driver fails when a test says so.

const found = compileFakeCuda()
const skip = typeof found === 'string' ? found : false
const fake = found as FakeCuda
const place = { deviceId: 0, hasGraphs: false, isBusyWaiting: false, batchSizes: [] as number[] }
const library = { file: onnxRuntimeLibrary(), origin: 'bundled', gpuObstacle: null, folders: [] }

let harness: OnnxHarness
before(async () => {
  if (skip === false) harness = await OnnxHarness.open()
})
after(async () => {
  if (skip === false) await harness.close()
})

type Opened = { readonly gpus: Gpus; readonly session: OnnxSession; readonly close: () => Promise<void> }

async function open(): Promise<Opened> {
  const gpus = new Gpus({ count: 1, driverLibrary: fake.file, ofTests: true })
  const binding = NativeBinding.open(new SystemClock(), { maxThreads: 0, globalThreads: null, library, gpus })
  const { files } = await harness.write(identityModel('FP32', [null]))
  const { session: settings } = parseOnnxSettings(emptyModelConfig())
  const session = await binding.createSession(`${files.versionDirectory}/model.onnx`, settings, place)
  const close = async (): Promise<void> => {
    await session.close()
    await gpus.close()
    await binding.close()
  }
  return { gpus, session, close }
}

const run = (runner: OnnxRunner, count: number): Promise<RunResult> =>
  new Promise((resolve) => {
    const input = { shape: [count], bytes: new Uint8Array(4 * count) }
    runner.run({ inputs: [input], outputs: [0], place: 'offloaded' }, (result) => {
      if (result.error === null) result.release?.()
      resolve(result)
    })
  })
const textOf = ({ error }: RunResult): string => (error === null ? 'no error' : `${error.code} ${error.message}`)

test(
  'after an error that ends the context of CUDA each batch fails at once with what to do, on all models of that GPU',
  { skip },
  async () => {
    const { gpus, session, close } = await open()
    const told: string[] = []
    gpus.faults.listen((deviceId, text) => told.push(`${deviceId} ${text}`))
    const [runner, other] = [session.createRunner(), session.createRunner()]
    assert.equal(textOf(await run(runner, 8)), 'no error')
    assert.deepEqual([runner.lost, await runner.pulse?.()], [null, true])
    fake.fail(700)
    try {
      assert.match(
        textOf(await run(runner, 8)),
        /^UNAVAILABLE GPU 0 cannot be used any more by this server: start .*CUDA_ERROR_ILLEGAL_ADDRESS/,
      )
    } finally {
      fake.fail(0)
    }
    for (const each of [runner, other]) {
      assert.match(textOf(await run(each, 8)), /^UNAVAILABLE GPU 0 cannot be used any more/)
      assert.match(each.lost ?? '', /GPU 0 cannot be used any more/)
      assert.equal(await each.pulse?.(), false)
    }
    assert.equal(told.length, 1)
    runner.close()
    other.close()
    await close()
  },
)

test(
  'a session on a lost GPU is not released: destructors of ONNX Runtime that CUDA fails in end the process',
  { skip },
  async () => {
    const [healthy, lost] = [await open(), await open()]
    const released: Gpus[] = []
    for (const { gpus } of [healthy, lost]) {
      const among = gpus.gate.among.bind(gpus.gate)
      gpus.gate.among = (work) => {
        released.push(gpus)
        return among(work)
      }
    }
    const runner = lost.session.createRunner()
    fake.fail(700)
    try {
      assert.match(textOf(await run(runner, 8)), /^UNAVAILABLE GPU 0 cannot be used any more/)
    } finally {
      fake.fail(0)
    }
    runner.close()
    for (const { close } of [healthy, lost]) await close()
    assert.deepEqual(released, [healthy.gpus])
  },
)

test('no model is loaded on a GPU that is lost, and the text says why', { skip }, async () => {
  const gpus = new Gpus({ count: 2, driverLibrary: fake.file, ofTests: true })
  const backend = new OnnxBackend({ clock: new SystemClock(), log: silentLog, gpus, interpreter: 'no-such-python' })
  const { config, files } = await harness.write(identityModel('FP32', [null]))
  const onGpu = (gpu: number) => ({
    ...config,
    instanceGroup: [configMessage('ModelInstanceGroup', { kind: 'KIND_GPU', gpus: [gpu] })],
  })
  gpus.faults.note(0, { code: 700, text: 'an illegal memory access' })
  await assert.rejects(backend.complete(onGpu(0), files), {
    code: 'UNAVAILABLE',
    message: /^GPU 0 cannot be used any more by this server: .* an illegal memory access$/,
  })
  await assert.rejects(backend.complete(onGpu(1), files), /does not support GPUs/)
  await backend.close()
  await gpus.close()
})

test('an error of CUDA that is no lack of memory is not told as one, and the next batch runs', { skip }, async () => {
  const { session, close } = await open()
  const runner = session.createRunner()
  for (const [code, expected] of [
    [2, /^UNAVAILABLE GPU 0 has no memory left for 256 bytes/],
    [1, /^INTERNAL the GPU reported an error: CUDA_ERROR_INVALID_VALUE/],
  ] as const) {
    fake.fail(code)
    try {
      assert.match(textOf(await run(runner, 8)), expected)
    } finally {
      fake.fail(0)
    }
  }
  assert.equal(textOf(await run(runner, 8)), 'no error')
  assert.equal(runner.lost, null)
  runner.close()
  await close()
})

test('an instance that goes gives its stream, its memory and its budgets back', { skip }, async () => {
  const { gpus, session, close } = await open()
  await gpus.memory(0)
  const [streams, bytes] = [fake.openStreams(), fake.usedBytes()]
  for (let round = 0; round < 3; round++) {
    const runner = session.createRunner()
    assert.equal(textOf(await run(runner, 64 * 1024)), 'no error')
    runner.close()
    await until(() => fake.openStreams() === streams, 'the stream of the instance to go')
    assert.equal(fake.usedBytes(), bytes)
    assert.equal(gpus.pool(0).usedBytes, 0)
    assert.equal(gpus.pinned.usedBytes, 0)
  }
  await close()
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { silentLog } from '../../base/log.ts'
import { emptyModelConfig } from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import type { InstanceSpec, ModelVersionSource } from '../../model/backend.ts'
import { Batch } from '../../model/batch.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { PlaceByTime } from './execution-place.ts'
import { OnnxModel } from './onnx-model.ts'
import type { OnnxRunner, OnnxSession, OnnxTensorSpec } from './onnx-session.ts'

const runner: OnnxRunner = { deviceId: 0, run: () => undefined, terminate: () => undefined, close: () => undefined }

/** Counts the sessions that are open. */
class Sessions {
  open = 0
  asked = 0
  /** How many of the next ones fail. */
  failing = 0
  runner = runner
  inputs: OnnxTensorSpec[] = []

  readonly next = (): Promise<OnnxSession> => {
    this.asked++
    if (this.failing > 0) {
      this.failing--
      return Promise.reject(new Error('out of memory'))
    }
    return Promise.resolve(this.session())
  }

  session(): OnnxSession {
    this.open++
    const close = (): Promise<void> => {
      this.open--
      return Promise.resolve()
    }
    const parts = { inputs: this.inputs, overridable: [], outputs: [], createRunner: () => this.runner }
    return { canRunInline: false, deviceBytes: 100, ...parts, close }
  }
}

function modelOn(sessions: Sessions, hasGraphs: boolean, inputs: readonly string[] = []): OnnxModel {
  sessions.inputs = inputs.map((name) => ({ name, dataType: 'UINT8', typeText: 'UINT8', shape: [-1], symbols: [''] }))
  const config = { ...emptyModelConfig(), name: 'm', maxBatchSize: inputs.length === 0 ? 0 : 8 }
  const source: ModelVersionSource = {
    name: 'm',
    version: '1',
    config,
    signature: new ModelSignature(config, new Map()),
    files: { repositoryPath: '/', modelDirectory: '/m', versionDirectory: '/m/1', version: '1' },
    log: silentLog,
  }
  const first = { deviceId: 0, cores: [], session: sessions.session() }
  const place = new PlaceByTime(100, 'offloaded')
  const settings = { place, maxExecutionMs: 0, hasGraphs }
  return new OnnxModel({ clock: new ManualClock() }, source, { first, open: sessions.next }, settings)
}

const spec = (index: number, deviceId = 0): InstanceSpec => ({
  name: `m_${index}`,
  kind: 'KIND_GPU',
  deviceId,
  index,
  onReadinessChange: () => undefined,
})

test('a session that could not be opened is tried again for the next instance, and the others are closed with the model', async () => {
  for (const hasGraphs of [false, true]) {
    const sessions = new Sessions()
    const model = modelOn(sessions, hasGraphs)
    await model.createInstance(spec(0))
    sessions.failing = 1
    await assert.rejects(model.createInstance(spec(1, 1)), /out of memory/)
    await model.createInstance(spec(2, 1))
    assert.equal(sessions.asked, 2)
    await model.close()
    assert.equal(sessions.open, 0)
  }
})

test('instances of a GPU share a session; with CUDA graphs each has its own', async () => {
  const shared = new Sessions()
  const plain = modelOn(shared, false)
  for (const index of [0, 1, 2]) await plain.createInstance(spec(index))
  assert.equal(shared.asked, 0)
  const own = new Sessions()
  const graphs = modelOn(own, true)
  for (const index of [0, 1]) await graphs.createInstance(spec(index))
  assert.equal(own.asked, 1)
})

test('a session goes with its last instance, and so does what it took of the GPU', async () => {
  for (const [hasGraphs, openWithTwo] of [
    [false, 1],
    [true, 2],
  ] as const) {
    const sessions = new Sessions()
    const model = modelOn(sessions, hasGraphs)
    const [first, second] = [await model.createInstance(spec(0)), await model.createInstance(spec(1))]
    assert.equal(sessions.open, openWithTwo)
    assert.deepEqual([...model.deviceBytes], [[0, 100 * openWithTwo]])
    await Promise.all([second.close(), second.close()])
    await second.close()
    assert.equal(sessions.open, 1, 'an instance that is closed again takes nothing from the others')
    assert.deepEqual([...model.deviceBytes], [[0, 100]])
    const other = await model.createInstance(spec(2, 1))
    await first.close()
    assert.deepEqual([...model.deviceBytes], [[1, 100]])
    await other.close()
    assert.deepEqual([...model.deviceBytes], [])
    assert.equal(sessions.open, 0)
    // A session that was left in a broken state, as by a graph that could not be recorded, is not taken over by a new instance.
    const asked = sessions.asked
    await model.createInstance(spec(3))
    assert.equal(sessions.asked, asked + 1)
    sessions.failing = 1
    await assert.rejects(model.createInstance(spec(4, 1)))
    await model.close()
    assert.equal(sessions.open, 0)
  }
})

test('a request whose inputs lie on another GPU than the instance, because the model moved meanwhile, fails alone', async () => {
  const ran: number[] = []
  const [onGpu0, onCpu]: OnnxRunner[] = [0, undefined].map((deviceId) => ({
    ...(deviceId === undefined ? {} : { deviceId }),
    run: ({ inputs }, finished) => {
      ran.push(inputs[0]?.shape[0] ?? 0)
      finished({ error: null, outputs: [], elapsedNs: 1, release: null })
    },
    terminate: () => undefined,
    close: () => undefined,
  }))
  for (const [runner, device, expected] of [
    [onGpu0, 0, 'answered'],
    [onGpu0, 1, 'UNAVAILABLE'],
    [onCpu, 0, 'UNAVAILABLE'],
    [onCpu, null, 'answered'],
  ] as const) {
    const sessions = new Sessions()
    sessions.runner = runner as OnnxRunner
    const instance = await modelOn(sessions, false, ['X']).createInstance(spec(0))
    const told: string[] = []
    const requests = [device, null].map((inputDevice, i) => {
      const sink = ({ error }: InferenceResponse): void => void (told[i] = error === null ? 'answered' : error.code)
      const inputs = [new Tensor('X', 'UINT8', [1], new Uint8Array(1))]
      return Object.assign(new InferenceRequest({ modelName: 'm', inputs, sink }), { inputDevice })
    })
    await new Promise<void>((resolve) => instance.execute(new Batch(requests, 2, resolve)))
    assert.deepEqual(told, [expected, 'answered'])
  }
  assert.deepEqual(ran, [2, 1, 1, 2])
})

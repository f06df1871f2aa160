// `--model-memory-limit` of a GPU: loads are measured, and models make room for each other on that GPU.

import assert from 'node:assert/strict'
import test from 'node:test'
import { engineOnShelf, shelvedModel } from '../../../test/fakes/engine-on-shelf.ts'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import type { LoadedModel } from '../../model/backend.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { ServedVersion } from '../serving/served-version.ts'
import { GpuMeter } from '../serving/gpu-meter.ts'

const parameter = (key: string, value: string): string =>
  `parameters { key: "${key}" value { string_value: "${value}" } }`

const model = (name: string, extra = '', kind = 'KIND_GPU') =>
  shelvedModel(
    name,
    `backend: "fake" ${parameter('lazy', 'true')} ${extra}
     input { name: "IN" data_type: TYPE_FP32 dims: 1 } output { name: "OUT" data_type: TYPE_FP32 dims: 1 }
     instance_group { kind: ${kind} count: 1 }`,
    { partBytes: new Map([['1', 10]]) },
  )

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5))

/** A GPU of 100 bytes, of which each instance takes 30. */
function engineWithGpu(models: ReturnType<typeof model>[], limit: number, takenByOthers = { bytes: 0 }) {
  const clock = new ManualClock()
  const options = { gpuCount: 1, gpuMemoryLimitBytes: new Map([[0, limit]]), defaultMaxQueueSize: 10 }
  const freeGpuBytes = (): Promise<number> => {
    const onGpu = [...backend.instances].filter((name) => !name.startsWith('cpu'))
    return Promise.resolve(100 - takenByOthers.bytes - 30 * onGpu.length)
  }
  const { engine, backend, log } = engineOnShelf(clock, models, options, { freeGpuBytes })
  const outcomes: string[] = []
  const use = async (name: string): Promise<string> => {
    clock.advanceMs(1)
    const inputs = [new Tensor('IN', 'FP32', [1], new Uint8Array(4))]
    const request = new InferenceRequest({
      modelName: name,
      inputs,
      sink: ({ error }) => outcomes.push(error === null ? 'ok' : error.message),
    })
    engine.infer(request, engine.findVersion(name, ''))
    for (let i = 0; i < 5 && outcomes.length === 0; i++) {
      await turn()
      backend.answerAll()
      // A load that finds no room waits ten seconds for others to become idle.
      if (i > 1) clock.advanceMs(11_000)
    }
    return outcomes.splice(0).join()
  }
  const ready = (): string => engine.index().flatMap(({ name, state }) => (state === 'READY' ? [name] : [])).join() // prettier-ignore
  return { engine, backend, log, use, ready }
}

test('what a backend counts by itself follows its instances', async () => {
  const { engine, backend, use, ready } = engineWithGpu([model('a'), model('b')], 95)
  const deviceBytes = new Map([[0, 0]])
  const count = (bytes: number): unknown => deviceBytes.set(0, (deviceBytes.get(0) ?? 0) + bytes)
  const load = backend.load.bind(backend)
  backend.load = async (source) => {
    const loaded = await load(source)
    if (source.name === 'b') return loaded
    const createInstance: LoadedModel['createInstance'] = async (spec) => {
      const instance = await loaded.createInstance(spec)
      const close = instance.close.bind(instance)
      count(30)
      return Object.assign(instance, { close: () => close().then(() => void count(-30)) })
    }
    return { ...loaded, createInstance, deviceBytes }
  }
  await engine.start()
  assert.equal(await use('a'), 'ok')
  const scale = (count: number): Promise<void> => engine.scale(engine.findVersion('a', '') as ServedVersion, count)
  await scale(2)
  assert.equal(await use('b'), 'ok')
  assert.equal(ready(), 'a,b', '60 and 30 of 95')
  await scale(1)
  await scale(2)
  await assert.rejects(scale(3), /needs 30 bytes of GPU 0, 5 of --model-memory-limit=0:95 are free/)
})

test('a load is measured, and the model used longest ago makes room on the GPU', async () => {
  const { engine, use, ready } = engineWithGpu([model('a'), model('b'), model('c'), model('cpu', '', 'KIND_CPU')], 70)
  await engine.start()
  for (const name of ['cpu', 'a', 'b', 'a', 'c']) assert.equal(await use(name), 'ok', name)
  // Files of 10 bytes were guessed for c. Its 30 bytes were too much beside a and b, so b left after the load.
  await turn()
  assert.equal(ready(), 'a,c,cpu', 'the model on the CPU stays: it has nothing on the GPU')
  assert.deepEqual(engine.statistics('c', '')[0]?.memoryUsage, [{ type: 'GPU', id: 0, byteSize: 30n }])
  // What c took is known now, so room for it is made before the next load.
  assert.equal(await use('b'), 'ok')
  assert.equal(ready(), 'b,c,cpu')
})

test('what is larger than the limit, or finds a GPU that others have filled, is refused with the figures', async () => {
  const taken = { bytes: 0 }
  const huge = model('huge', parameter('gpu_memory_bytes', '80'))
  const { engine, use } = engineWithGpu([model('a'), huge], 70, taken)
  await engine.start()
  assert.match(
    await use('huge'),
    /needs 80 bytes of GPU 0, 70 of --model-memory-limit=0:70 are free, and alone it needs more/,
  )
  taken.bytes = 95
  assert.match(await use('a'), /it needs 10 bytes of GPU 0, 70 of --model-memory-limit=0:70 are free/)
  taken.bytes = 0
  assert.equal(await use('a'), 'ok')
})

test('a load beside another is not measured, unless loads wait for each other', async () => {
  let free = 100
  const load = (bytes: number) => async (): Promise<void> => {
    await turn()
    free -= bytes
  }
  for (const [isSerial, expected] of [
    [false, [null, null]],
    [true, [10, 20]],
  ] as const) {
    const meter = new GpuMeter(() => Promise.resolve(free), isSerial)
    const both = await Promise.all([meter.measure([0], load(10)), meter.measure([0], load(20))])
    assert.deepEqual(both.map(({ bytes }) => bytes?.get(0) ?? null), expected) // prettier-ignore
  }
  const meter = new GpuMeter(() => Promise.resolve(null), false)
  assert.equal((await meter.measure([0], load(1))).bytes, null)
  await assert.rejects(meter.measure([0], () => Promise.reject(new Error('no'))))
})

test('gpu_placement takes the GPU of the group with the most free memory, and models that load together are on different ones', async () => {
  // A GPU that nobody can tell of comes last.
  const free = new Map([[0, 40], [1, 50], [2, 45]]) // prettier-ignore
  const groups = 'instance_group { kind: KIND_GPU count: 1 gpus: [ 0, 1, 2, 3 ] }'
  const placed = (name: string, value: string, theGroups = groups) =>
    shelvedModel(
      name,
      `backend: "fake" ${parameter('gpu_placement', value)} ${theGroups}
       input { name: "IN" data_type: TYPE_FP32 dims: 1 } output { name: "OUT" data_type: TYPE_FP32 dims: 1 }`,
      { partFingerprints: new Map([['', 'files']]) },
    )
  const freeGpuBytes = (device: number): Promise<number | null> => Promise.resolve(free.get(device) ?? null)
  const models = [placed('a', 'most_free'), placed('b', 'most_free'), placed('c', 'all')]
  const { engine, shelf } = engineOnShelf(new ManualClock(), models, { gpuCount: 4 }, { freeGpuBytes })
  const gpusOf = (name: string): number[] =>
    engine.findVersion(name, '').config.instanceGroup.flatMap((group) => group.gpus)
  // All of them load at the same time.
  await engine.start()
  assert.deepEqual(models.map(({ name }) => gpusOf(name)), [[1], [2], [0, 1, 2, 3]]) // prettier-ignore
  free.set(0, 60)
  // Only a load chooses: a model that gets more instances stays where its weights are, and a new group comes there too.
  for (const [text, expected] of [
    [groups.replace('count: 1', 'count: 2'), [1]],
    [`${groups} instance_group { kind: KIND_GPU }`, [1, 1]],
    ['instance_group { kind: KIND_GPU gpus: [ 2, 3 ] }', [2]],
  ] as const) {
    shelf.set('a', placed('a', 'most_free', text))
    await engine.load('a')
    assert.deepEqual(gpusOf('a'), expected)
  }
  await engine.unload('a', false)
  shelf.set('a', placed('a', 'most_free'))
  await engine.load('a')
  assert.deepEqual(gpusOf('a'), [0])
})

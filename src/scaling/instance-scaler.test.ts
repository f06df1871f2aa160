import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { shelvedModel } from '../../test/fakes/engine-on-shelf.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { parameterProblems } from '../config/model-parameters.ts'
import { withInstanceCount } from '../config/scale-limits.ts'
import { Statistics } from '../telemetry/statistics.ts'
import { coreBound } from './core-bound.ts'
import { growthObstacle } from './growth-obstacle.ts'
import { InstanceScaler, type ScalableVersion } from './instance-scaler.ts'

const text = (parameters: Readonly<Record<string, string | number>>, extra = 'count: 1'): string =>
  `backend: "python" instance_group { kind: KIND_CPU ${extra} } ` +
  Object.entries(parameters)
    .map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`)
    .join(' ')

const configOf = (parameters: Readonly<Record<string, string | number>>, extra?: string): ModelConfig =>
  shelvedModel('m', text(parameters, extra)).config

/** Every instance is busy all the time. */
function scalerUnderTest(parameters: Readonly<Record<string, number>>, obstacle = '') {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const statistics = new Statistics({ hasResponseStatistics: false }).snapshot('m', '1', 0, 0)
  let busyNs = 0
  const version: { -readonly [Key in keyof ScalableVersion]: ScalableVersion[Key] } = {
    key: 'm',
    name: 'm',
    namespace: undefined,
    version: '1',
    state: 'READY',
    config: configOf(parameters),
    pendingCount: 0,
    workload: { count: 1, readyCount: 1, restartCount: 0, busyNs: () => busyNs },
    loadSeconds: 1,
    statistics: () => statistics,
  }
  const scaler = new InstanceScaler({
    clock,
    log,
    coreCount: 4,
    patterns: null,
    scale: (one, count) => {
      ;(one as { config: ModelConfig }).config = withInstanceCount(version.config, count)
      return Promise.resolve()
    },
    obstacle: () => Promise.resolve(obstacle),
    isStandard: () => true,
  })
  scaler.add(version)
  const seconds = async (count: number, busyShare: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      busyNs += busyShare * 1e9
      clock.advanceNs(1e9)
      for (let turn = 0; turn < 5; turn++) await Promise.resolve()
    }
  }
  return { scaler, version, log, seconds, count: () => version.config.instanceGroup[0]?.count }
}

test('instances follow what the version does, and its figures tell of it', async () => {
  const { scaler, seconds, count } = scalerUnderTest({ instances_max: 3 })
  await seconds(5, 1)
  assert.equal(count(), 2)
  assert.deepEqual([...scaler.figures()].map(({ max, demand, moves }) => ({ max, demand, moves: [...moves] })), [{ max: 3, demand: 1, moves: [['panic', 1]] }]) // prettier-ignore
  scaler.close()
})

test('an alert holds more instances for a while, within the limits; a model with fixed instances has nothing to hold', async () => {
  const { scaler, seconds, count } = scalerUnderTest({ instances_max: 3 })
  await seconds(4, 0.1)
  assert.deepEqual(scaler.hold('m', 5, 60), { count: 3 })
  assert.equal(scaler.hold('other', 1, 60), null)
  await seconds(2, 0.1)
  assert.equal(count(), 3)
  await seconds(800, 0.1)
  assert.equal(count(), 1, 'after the hold they go as others do')
  scaler.close()
})

test('without memory for another instance none is made, and the log says why', async () => {
  const { scaler, seconds, count, log } = scalerUnderTest({ instances_max: 3 }, '95 % of the memory are used')
  await seconds(30, 1)
  assert.equal(count(), 1)
  const told = log.entries.filter(({ message }) => message.includes('95 % of the memory are used'))
  assert.equal(told.length, 1, 'the next try is a minute later')
  scaler.close()
})

test('a version that is unloaded is watched no longer', async () => {
  const { scaler, seconds, version } = scalerUnderTest({ instances_max: 3 })
  version.state = 'UNLOADING'
  await seconds(2, 1)
  assert.deepEqual([...scaler.figures()], [])
})

test('cores bound backends that compute all the time, by the threads of one instance', () => {
  const onnx = (extra: Readonly<Record<string, string>>): ModelConfig => ({
    ...configOf(extra),
    backend: 'onnxruntime',
  })
  assert.equal(coreBound(onnx({}), 8), 8)
  assert.equal(coreBound(onnx({ intra_op_thread_count: '3' }), 8), 2)
  assert.equal(coreBound(onnx({ intra_op_thread_count: '30' }), 8), 1)
  assert.equal(coreBound(configOf({}), 8), Infinity)
})

test('memory of the machine and of the GPUs of the model stand against growth above nine tenths', async () => {
  const gpus = configOf({}, 'gpus: 1 gpus: 3')
  const onGpus = {
    ...gpus,
    instanceGroup: gpus.instanceGroup.map((group) => ({ ...group, kind: 'KIND_GPU' as const })),
  }
  const share = (used: number) => () => Promise.resolve(used)
  assert.equal(await growthObstacle(onGpus, () => 0.5, share(0.8)), '')
  assert.equal(await growthObstacle(onGpus, () => 0.95, share(0)), '95 % of the memory are used')
  assert.match(
    await growthObstacle(
      onGpus,
      () => 0.5,
      (id) => share(id === 3 ? 0.93 : 0)(),
    ),
    /93 % of the memory of GPU 3/,
  )
})

test('a configuration whose instances cannot follow load is refused', () => {
  const problems = (parameters: Readonly<Record<string, string | number>>, extra?: string): string[] =>
    [...parameterProblems(configOf(parameters, extra))].map(({ message }) => message)
  assert.deepEqual(
    problems({ instances_max: 4, instances_min: 2, instances_target: 0.5, instances_forecast: 'true' }),
    [],
  )
  assert.match(problems({ instances_min: 2 })[0] ?? '', /needs 'instances_max'/)
  assert.match(problems({ instances_max: 2, instances_min: 3 })[0] ?? '', /is 2, which is below instances_min 3/)
  assert.match(problems({ instances_max: 2 }, 'count: 1 } instance_group { count: 1')[0] ?? '', /one instance group/)
  assert.match(problems({ instances_max: 5000 })[0] ?? '', /must be a whole number from 1 to 1024/)
  assert.match(problems({ instances_max: 2, instances_target: 0 })[0] ?? '', /a number above 0 and up to 1/)
})

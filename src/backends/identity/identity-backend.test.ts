import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { silentLog } from '../../base/log.ts'
import type { Instance } from '../../model/backend.ts'
import { Batch } from '../../model/batch.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { CustomMetricRegistry } from '../../telemetry/custom-metrics.ts'
import {
  ask,
  configOf,
  copyModelConfig,
  executeOne,
  filesOf,
  instanceSpec,
  int32Tensor,
  int32Values,
  loadModel,
  testBackendContract,
} from '../backend.contract.ts'
import { IdentityBackend } from './identity-backend.ts'

testBackendContract('identity', () =>
  Promise.resolve({
    backend: new IdentityBackend({ clock: new SystemClock(), log: silentLog }),
    config: copyModelConfig(),
    files: filesOf('.'),
  }),
)

const oneTensor = (parameters: Record<string, string> = {}): ModelConfig =>
  configOf('m', {
    input: [['INPUT0', 'TYPE_INT32', [-1]]],
    output: [['OUTPUT0', 'TYPE_INT32', [-1]]],
    parameters,
  })

async function instanceUnderTest(clock: ManualClock, config: ModelConfig, index = 0): Promise<Instance> {
  const model = await loadModel(new IdentityBackend({ clock, log: silentLog }), config, filesOf('.'))
  return model.createInstance(instanceSpec('m', index))
}

test('outputs are the bytes of the inputs, not a copy', async () => {
  const instance = await instanceUnderTest(new ManualClock(), oneTensor())
  const input = int32Tensor('INPUT0', [1, 2])
  const response = await executeOne(instance, ask([input]))
  assert.equal(response.outputs[0]?.bytes, input.bytes)
})

test('where names do not pair, the i-th output answers with the i-th input', async () => {
  const config = configOf('m', {
    input: [
      ['first', 'TYPE_INT32', [1]],
      ['second', 'TYPE_INT32', [1]],
    ],
    output: [
      ['a', 'TYPE_INT32', [1]],
      ['b', 'TYPE_INT32', [1]],
    ],
  })
  const instance = await instanceUnderTest(new ManualClock(), config)
  const response = await executeOne(instance, ask([int32Tensor('second', [2]), int32Tensor('first', [1])]))
  assert.deepEqual(
    response.outputs.map((output) => [output.name, int32Values(output)]),
    [
      ['a', [1]],
      ['b', [2]],
    ],
  )
})

test('OUTPUTn answers with INPUTn whatever their order', async () => {
  const config = configOf('m', {
    input: [
      ['INPUT1', 'TYPE_INT32', [1]],
      ['INPUT0', 'TYPE_INT32', [1]],
    ],
    output: [['OUTPUT0', 'TYPE_INT32', [1]]],
  })
  const instance = await instanceUnderTest(new ManualClock(), config)
  const response = await executeOne(instance, ask([int32Tensor('INPUT1', [1]), int32Tensor('INPUT0', [0])]))
  assert.deepEqual(int32Values(response.outputs[0]), [0])
})

test('an optional input that was left out answers with zeros', async () => {
  const config = oneTensor()
  const [input] = config.input
  assert.ok(input)
  input.optional = true
  input.dims = [3]
  const instance = await instanceUnderTest(new ManualClock(), config)
  const response = await executeOne(instance, ask([]))
  assert.deepEqual(int32Values(response.outputs[0]), [0, 0, 0])
})

test('execute_delay_ms delays an execution, in the time of the clock', async () => {
  const clock = new ManualClock()
  const instance = await instanceUnderTest(clock, oneTensor({ execute_delay_ms: '20' }))
  const asked = ask([int32Tensor('INPUT0', [1])])
  let executedCount = 0
  instance.execute(new Batch([asked.request], 1, () => executedCount++))
  clock.advanceUs(19_999)
  assert.deepEqual([asked.responses.length, executedCount], [0, 0])
  clock.advanceUs(1)
  assert.deepEqual([asked.responses.length, executedCount], [1, 1])
  assert.equal(asked.request.computeEndNs - asked.request.computeStartNs, 20e6)
})

test('instance_wise_delay_multiplier slows instance n by multiplier × n, and instance 0 not at all', async () => {
  const delays: number[] = []
  for (const index of [0, 1, 2]) {
    const clock = new ManualClock()
    const parameters = { execute_delay_ms: '100', instance_wise_delay_multiplier: '4' }
    const instance = await instanceUnderTest(clock, oneTensor(parameters), index)
    const asked = ask([int32Tensor('INPUT0', [1])])
    instance.execute(new Batch([asked.request], 1, () => undefined))
    clock.advanceMs(10_000)
    delays.push((asked.request.computeEndNs - asked.request.computeStartNs) / 1e6)
  }
  assert.deepEqual(delays, [100, 400, 800])
})

test('creation_delay_sec delays the load', async () => {
  const clock = new ManualClock()
  const backend = new IdentityBackend({ clock, log: silentLog })
  let isLoaded = false
  const loading = loadModel(backend, oneTensor({ creation_delay_sec: '2' }), filesOf('.')).then(() => (isLoaded = true))
  clock.advanceMs(1999)
  await Promise.resolve()
  assert.equal(isLoaded, false)
  clock.advanceMs(1)
  await loading
  assert.equal(isLoaded, true)
})

test('a request that is cancelled during the delay ends at once as CANCELLED, its neighbours are answered', async () => {
  const clock = new ManualClock()
  const instance = await instanceUnderTest(clock, oneTensor({ execute_delay_ms: '20' }))
  const cancelled = ask([int32Tensor('INPUT0', [1])])
  const other = ask([int32Tensor('INPUT0', [2])])
  let executedCount = 0
  instance.execute(new Batch([cancelled.request, other.request], 2, () => executedCount++))
  cancelled.request.cancel()
  assert.equal(cancelled.responses[0]?.error?.code, 'CANCELLED')
  clock.advanceMs(20)
  assert.deepEqual(int32Values(other.responses[0]?.outputs[0]), [2])
  assert.deepEqual([cancelled.responses.length, executedCount], [1, 1])
})

test('closing answers the batch that is being delayed', async () => {
  const clock = new ManualClock()
  const instance = await instanceUnderTest(clock, oneTensor({ execute_delay_ms: '20' }))
  const asked = ask([int32Tensor('INPUT0', [1])])
  instance.execute(new Batch([asked.request], 1, () => undefined))
  await instance.close()
  assert.equal(asked.responses.length, 1)
  assert.equal(clock.pendingCount, 0)
})

test('response_parameters adds the example parameters of Triton, nothing else does', async () => {
  const plain = await instanceUnderTest(new ManualClock(), oneTensor())
  assert.equal((await executeOne(plain, ask([int32Tensor('INPUT0', [1])]))).parameters, null)
  const asked = await instanceUnderTest(new ManualClock(), oneTensor({ response_parameters: 'true' }))
  const { parameters } = await executeOne(asked, ask([int32Tensor('INPUT0', [1])]))
  assert.deepEqual([...(parameters ?? [])], [
    ['param0', 'an example string parameter'],
    ['param1', 42n],
    ['param2', false],
    ['param3', 123.123],
  ]) // prettier-ignore
})

test('input_byte_size_counter counts the bytes of every input that is answered with, per model version, while that is loaded', async () => {
  const metrics = new CustomMetricRegistry()
  const backend = new IdentityBackend({ clock: new ManualClock(), log: silentLog, services: { metrics } })
  const shown = (): unknown[] =>
    [...metrics.families()].map(({ name, kind, description, series }) => [
      name,
      kind,
      description,
      [...series.values()].map(({ labels, value }) => [Object.fromEntries(labels), value]),
    ])
  const family = (...series: unknown[]): unknown[] => [
    ['input_byte_size_counter', 'counter', 'Cumulative input byte size of all requests received by the model', series],
  ]
  const config = copyModelConfig()
  const [, second] = config.input
  assert.ok(second)
  second.optional = true
  const model = await loadModel(backend, config, filesOf('.'))
  const labels = { model: 'copy', version: '1' }
  assert.deepEqual(shown(), family([labels, 0]))

  const instance = await model.createInstance(instanceSpec('copy'))
  const inputs = [int32Tensor('INPUT0', [1, 2], 1), int32Tensor('INPUT1', [3, 4, 5], 1)]
  await executeOne(instance, ask(inputs, { batchSize: 1 }))
  assert.deepEqual(shown(), family([labels, 20]))
  // An output that nobody wants and an input that was left out do not count.
  await executeOne(instance, ask(inputs, { batchSize: 1, requestedOutputs: ['OUTPUT0'] }))
  await executeOne(instance, ask(inputs.slice(0, 1), { batchSize: 1 }))
  assert.deepEqual(shown(), family([labels, 36]))

  const again = await loadModel(backend, config, filesOf('.'))
  await instance.close()
  await model.close()
  assert.deepEqual(shown(), family([labels, 36]), 'a reload goes on counting')
  await again.close()
  assert.deepEqual(shown(), family())
})

test('a delay that is not a number fails the load and says which', async () => {
  const backend = new IdentityBackend({ clock: new ManualClock(), log: silentLog })
  await assert.rejects(loadModel(backend, oneTensor({ execute_delay_ms: 'soon' }), filesOf('.')), {
    code: 'INVALID_ARG',
    message: "model 'm': parameter 'execute_delay_ms' must be a number that is not negative, got 'soon'",
  })
})

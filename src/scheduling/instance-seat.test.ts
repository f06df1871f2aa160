import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import type { Instance } from '../model/backend.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { emptyModelConfig, type ModelConfig } from '../config/model-config.ts'
import { ModelSignature } from '../config/model-signature.ts'
import { normaliseModelConfig } from '../config/normalise-model-config.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { parseModelConfigText } from '../repository/text-format-reader.ts'
import { Tensor } from '../tensor/tensor.ts'
import { HeldInstance } from '../../test/fakes/held-instance.ts'
import { DirectScheduler } from './direct-scheduler.ts'
import { DynamicBatchScheduler } from './dynamic-batch-scheduler.ts'
import { dynamicBatchSettings } from './dynamic-batch-settings.ts'
import { SequenceScheduler } from './sequence-scheduler.ts'
import { sequenceSettings } from './sequence-settings.ts'

function configOf(extra: string): ModelConfig {
  const { config } = parseModelConfigText(`
    name: "m" ${extra}
    input { name: "X" data_type: TYPE_UINT8 dims: 1 } output { name: "Y" data_type: TYPE_UINT8 dims: 1 }
  `)
  const whole = { ...emptyModelConfig(), ...config }
  normaliseModelConfig(whole)
  return whole
}

const afterThisTurn = (fire: () => void): void => fire()
const makers: Readonly<Record<string, (instances: readonly Instance[]) => Scheduler>> = {
  direct: (instances) => new DirectScheduler({ clock: new ManualClock() }, instances, { maxQueueSize: 100 }),
  'dynamic batch': (instances) => {
    const config = configOf('max_batch_size: 1 dynamic_batching { }')
    assert.ok(config.dynamicBatching !== null)
    const options = { defaultMaxQueueSize: 100 }
    const settings = dynamicBatchSettings(config, config.dynamicBatching, new ModelSignature(config), options)
    return new DynamicBatchScheduler({ clock: new ManualClock(), afterThisTurn }, instances, settings)
  },
  sequence: (instances) => {
    const config = configOf('sequence_batching { }')
    assert.ok(config.sequenceBatching !== null)
    const options = { maxQueueSize: 100, initialStates: new Map() }
    const settings = sequenceSettings(config, config.sequenceBatching, new ModelSignature(config), options)
    return new SequenceScheduler({ clock: new ManualClock(), afterThisTurn }, instances, settings)
  },
}

for (const [name, make] of Object.entries(makers)) {
  test(`the ${name} scheduler uses instances that come, and lets go of those that leave after their last batch`, async () => {
    const [a, b, c] = [new HeldInstance('a'), new HeldInstance('b'), new HeldInstance('c')]
    const scheduler = make([a])
    const outcomes: string[] = []
    const send = (id: string): void => {
      const request = new InferenceRequest({
        modelName: 'm',
        id,
        inputs: [new Tensor('X', 'UINT8', [1], Uint8Array.of(1))],
        correlationId: BigInt(id),
        isSequenceStart: true,
        isSequenceEnd: true,
        sink: ({ error }) => outcomes.push(error?.message ?? id),
      })
      request.batchSize = name === 'dynamic batch' ? 1 : 0
      scheduler.enqueue(request)
    }
    for (const id of ['1', '2', '3']) send(id)
    assert.equal(a.heldIds, '1')
    await scheduler.setInstances?.([a, b, c])
    assert.deepEqual(new Set([b.heldIds, c.heldIds]), new Set(['2', '3']), 'what waited runs on the new ones')
    let hasLeft = false
    const left = scheduler.setInstances?.([b]).then(() => (hasLeft = true))
    send('4')
    // A second change does not make the scheduler forget whom the first one awaits.
    await scheduler.setInstances?.([b])
    a.finish()
    await Promise.resolve()
    assert.equal(hasLeft, false, 'another one is still at work')
    assert.equal(a.heldIds, '', 'one that leaves gets nothing new')
    c.finish()
    await left
    b.finish()
    assert.equal(b.heldIds, '4')
    b.finish()
    assert.deepEqual(outcomes.toSorted(), ['1', '2', '3', '4'])
    await scheduler.drain()
  })
}

test('a sole instance that takes batches ahead has all of them behind it before it leaves', async () => {
  const clock = new ManualClock()
  const ahead = new HeldInstance('ahead')
  ahead.prefetchDepth = 2
  const scheduler = new DirectScheduler({ clock }, [ahead], { maxQueueSize: 100 })
  let answered = 0
  const send = (): void =>
    scheduler.enqueue(new InferenceRequest({ modelName: 'm', inputs: [], sink: () => void answered++ }))
  send()
  send()
  assert.equal(ahead.batches.length, 2)
  const other = new HeldInstance('other')
  let hasLeft = false
  const left = scheduler.setInstances([other]).then(() => (hasLeft = true))
  while (ahead.isBusy) {
    assert.equal(hasLeft, false)
    ahead.finish()
    await Promise.resolve()
  }
  await left
  assert.equal(answered, 2)
})

// The sequence scheduler under random arrivals, finishes, cancellations, failures, worker deaths and time, in virtual
// time. A failing run prints the seed that repeats it.

import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { ManualClock } from '../../src/base/clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import type { Instance } from '../../src/model/backend.ts'
import type { Batch } from '../../src/model/batch.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { emptyModelConfig, type ModelConfig } from '../../src/model/model-config.ts'
import { ModelSignature } from '../../src/model/model-signature.ts'
import { normalisePolledConfig } from '../../src/model/normalise-model-config.ts'
import { parseModelConfigText } from '../../src/repository/text-format-reader.ts'
import { SequenceScheduler } from '../../src/scheduling/sequence-scheduler.ts'
import { sequenceSettings } from '../../src/scheduling/sequence-settings.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

const instanceCount = 2
const sequenceCount = 8
const maxQueueSize = 12
const idleUs = 400
const state = 'state { input_name: "S" output_name: "S_OUT" data_type: TYPE_UINT32 dims: 1 }'
const ready = 'control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }'

/** What a model of sequences may look like; each with two rows at most. */
const kinds = [
  { maxBatchSize: 0, batching: state },
  { maxBatchSize: 2, batching: `${state} ${ready}` },
  { maxBatchSize: 2, batching: `${state} direct { max_queue_delay_microseconds: 50 minimum_slot_utilization: 1 }` },
  { maxBatchSize: 2, batching: `${state} oldest { max_candidate_sequences: 2 }` },
  { maxBatchSize: 2, batching: `${state} oldest { max_candidate_sequences: 4 max_queue_delay_microseconds: 50 }` },
] as const

/** One run of START … END, as it was admitted. Counts what the model should have in its state. */
type Life = { instance: SimulatedInstance | null; readonly expected: InferenceRequest[] }

class SimulatedInstance implements Instance {
  readonly name = 'simulated'
  isReady = true
  batch: Batch | null = null
  /** Of a decoupled model: executed, but not answered. */
  readonly unanswered: InferenceRequest[] = []
  readonly #check: (instance: SimulatedInstance, batch: Batch) => void

  constructor(check: (instance: SimulatedInstance, batch: Batch) => void) {
    this.#check = check
  }
  execute(batch: Batch): void {
    assert.ok(this.isReady, 'only a ready instance is given work')
    assert.equal(this.batch, null, 'one batch at a time')
    this.batch = batch
    this.#check(this, batch)
  }
  letGo(): void {
    const batch = this.batch
    if (batch === null) return
    this.batch = null
    this.unanswered.push(...batch.requests)
    batch.executed()
  }
  finish(fails: boolean): void {
    for (const request of this.unanswered.splice(0)) request.respond(InferenceResponse.of([counted(request)]))
    const batch = this.batch
    if (batch === null) return
    this.batch = null
    for (const request of batch.requests) {
      if (fails) request.fail(new ServerError('INTERNAL', 'failed'))
      else request.respond(InferenceResponse.of([counted(request)]))
    }
    batch.executed()
  }
  get running(): readonly InferenceRequest[] {
    return [...(this.batch?.requests ?? []), ...this.unanswered]
  }
  close(): Promise<void> {
    return Promise.resolve()
  }
}

/** The model: its state is how many requests of the sequence it has answered. */
function counted({ inputs }: InferenceRequest): Tensor {
  const before = inputs.find(({ name }) => name === 'S') as Tensor
  const bytes = new Uint8Array(4)
  const count = new DataView(before.bytes.buffer, before.bytes.byteOffset).getUint32(0, true) + 1
  new DataView(bytes.buffer).setUint32(0, count, true)
  return new Tensor('S_OUT', 'UINT32', before.shape, bytes)
}

const act = <T extends string>(name: T, most: number) => fc.record({ do: fc.constant(name), value: fc.nat(most) })
const step = fc.oneof(
  { weight: 8, arbitrary: act('arrive', 1000) },
  { weight: 6, arbitrary: act('finish', 40) },
  { weight: 1, arbitrary: act('letGo', instanceCount - 1) },
  { weight: 1, arbitrary: act('cancel', 20) },
  { weight: 2, arbitrary: act('advance', 300) },
  { weight: 1, arbitrary: act('flip', instanceCount - 1) },
)

class Simulation {
  readonly clock = new ManualClock()
  readonly scheduler: SequenceScheduler
  readonly instances: SimulatedInstance[]
  readonly admitted: InferenceRequest[] = []
  readonly ends = new Map<InferenceRequest, number>()
  readonly #lives = new Map<bigint, Life>()
  readonly #lifeOf = new Map<InferenceRequest, Life>()
  readonly #isBatching: boolean
  readonly #turns: (() => void)[] = []
  readonly #maxBatchSize: number

  constructor({ maxBatchSize, batching }: (typeof kinds)[number]) {
    const { config: parsed } = parseModelConfigText(`
      name: "m" max_batch_size: ${maxBatchSize}
      sequence_batching { max_sequence_idle_microseconds: ${idleUs} ${batching} }
    `)
    const config: ModelConfig = { ...emptyModelConfig(), ...parsed }
    normalisePolledConfig(config)
    assert.ok(config.sequenceBatching !== null)
    this.#isBatching = maxBatchSize > 0
    this.#maxBatchSize = Math.max(1, maxBatchSize)
    this.instances = Array.from(
      { length: instanceCount },
      () => new SimulatedInstance((...seen) => this.#check(...seen)),
    )
    const options = { maxQueueSize, initialStates: new Map<string, Uint8Array>() }
    const settings = sequenceSettings(config, config.sequenceBatching, new ModelSignature(config), options)
    const afterThisTurn = (fire: () => void): void => void this.#turns.push(fire)
    this.scheduler = new SequenceScheduler({ clock: this.clock, afterThisTurn }, this.instances, settings)
  }

  run({ do: action, value }: { readonly do: string; readonly value: number }): void {
    if (action === 'arrive') this.#arrive(value)
    else if (action === 'finish') this.instances[value % instanceCount]?.finish(value > 35)
    else if (action === 'letGo') this.instances[value]?.letGo()
    else if (action === 'cancel') this.admitted.at(-1 - value)?.cancel()
    else if (action === 'advance') this.clock.advanceUs(value)
    else this.#flip(value)
    this.endTurn()
  }

  endTurn(): void {
    for (const fire of this.#turns.splice(0)) fire()
  }

  /** An idle instance with eligible work is a bug. Only for models that do not wait on purpose. */
  checkNoneIdles(): void {
    const isRunning = (request: InferenceRequest): boolean =>
      this.instances.some((instance) => instance.running.includes(request))
    for (const life of this.#lives.values()) {
      const open = life.expected.filter((request) => !this.ends.has(request))
      const { instance } = life
      if (instance === null || open.length === 0 || open.some(isRunning)) continue
      assert.ok(instance.batch !== null || !instance.isReady, 'an idle instance with eligible work')
    }
  }

  bringBack(): void {
    for (const instance of this.instances) instance.isReady = true
    this.scheduler.instancesChanged()
  }

  #flip(index: number): void {
    const instance = this.instances[index] as SimulatedInstance
    instance.isReady = !instance.isReady
    this.scheduler.instancesChanged()
  }

  #arrive(value: number): void {
    const timeoutUs = BigInt(value % 7 === 0 ? value % 200 : 0)
    const id = BigInt(1 + (value % sequenceCount))
    this.send(id, { isSequenceStart: value % 10 < 4, isSequenceEnd: value % 11 === 0, timeoutUs })
  }

  send(id: bigint, fields: { isSequenceStart: boolean; isSequenceEnd: boolean; timeoutUs: bigint }): void {
    const request = new InferenceRequest({
      modelName: 'm',
      inputs: [],
      correlationId: id,
      ...fields,
      sink: (_, ended) => this.ends.set(ended, (this.ends.get(ended) ?? 0) + 1),
    })
    request.batchSize = this.#isBatching ? 1 : 0
    this.admitted.push(request)
    const known = fields.isSequenceStart ? undefined : this.#lives.get(id)
    const life: Life = known ?? { instance: null, expected: [] }
    life.expected.push(request)
    this.#lifeOf.set(request, life)
    this.scheduler.enqueue(request)
    if (this.ends.has(request)) life.expected.pop()
    else this.#lives.set(id, life)
  }

  #check(instance: SimulatedInstance, { requests, batchSize }: Batch): void {
    assert.ok(requests.length <= this.#maxBatchSize && batchSize === requests.length, 'rows ≤ max')
    const ids = requests.filter((request) => this.#lifeOf.has(request)).map(({ correlationId }) => correlationId)
    assert.ok(ids.length > 0, 'nobody runs empty places alone')
    assert.equal(new Set(ids).size, ids.length, 'one request of a sequence at a time')
    for (const request of requests) {
      const life = this.#lifeOf.get(request)
      if (life === undefined) continue
      assert.ok(life.instance === null || life.instance === instance, 'a sequence stays on its instance')
      life.instance = instance
      const open = life.expected.filter((each) => !this.ends.has(each))
      assert.equal(open[0], request, 'requests of a sequence run in the order in which they came')
      const isBusy = this.instances.some((other) => other.unanswered.some((each) => this.#lifeOf.get(each) === life))
      assert.equal(isBusy, false, 'the next request waits for the answer to the one before')
      this.#checkState(request, life)
    }
  }

  /** The state that the model gets is that of its own sequence: no more requests than were answered since START. */
  #checkState(request: InferenceRequest, life: Life): void {
    const { bytes } = request.inputs.find(({ name }) => name === 'S') as Tensor
    const count = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
    if (request.isSequenceStart) assert.equal(count, 0, 'START begins anew')
    assert.ok(count <= life.expected.indexOf(request), 'state of another sequence')
  }
}

for (const kind of kinds) {
  test(`under any history every request ends once and sequences keep slot, order and state: ${kind.batching.slice(state.length).trim() || 'direct'}`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 150, size: 'max' }), async (steps) => {
        const simulation = new Simulation(kind)
        for (const each of steps) {
          simulation.run(each)
          const { admitted, ends, instances, scheduler } = simulation
          for (const count of ends.values()) assert.equal(count, 1, 'exactly one end')
          const running = instances.flatMap((instance) => instance.running).filter((each) => admitted.includes(each))
          assert.equal(admitted.length, ends.size + scheduler.pendingCount + running.length, 'nothing is lost')
          assert.ok(scheduler.pendingCount <= maxQueueSize, 'queue ≤ bound')
          if (!kind.batching.includes('delay')) simulation.checkNoneIdles()
        }
        let isDrained = false
        const drained = simulation.scheduler.drain().then(() => (isDrained = true))
        simulation.bringBack()
        for (let round = 0; round < 400 && simulation.ends.size < simulation.admitted.length; round++) {
          for (const instance of simulation.instances) instance.finish(false)
          simulation.endTurn()
        }
        assert.equal(simulation.ends.size, simulation.admitted.length, 'everything admitted ends')
        await drained
        assert.ok(isDrained)
        assert.equal(simulation.clock.pendingCount, 0, 'no timer is left')
      }),
      { numRuns: 300 },
    )
  })
}

test('once everything has been answered and the idle time has passed, no sequence holds a slot', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
      const simulation = new Simulation(kinds[0])
      for (const each of steps) simulation.run(each)
      simulation.bringBack()
      for (let round = 0; round < 200; round++) {
        for (const instance of simulation.instances) instance.finish(false)
        simulation.endTurn()
        simulation.clock.advanceUs(idleUs)
      }
      assert.equal(simulation.ends.size, simulation.admitted.length)
      assert.equal(simulation.clock.pendingCount, 0)
      // A new sequence for every slot, and all of them run at once.
      for (let id = 0; id < instanceCount; id++) {
        simulation.send(BigInt(100 + id), { isSequenceStart: true, isSequenceEnd: false, timeoutUs: 0n })
      }
      assert.equal(simulation.scheduler.pendingCount, 0)
    }),
    { numRuns: 200 },
  )
})

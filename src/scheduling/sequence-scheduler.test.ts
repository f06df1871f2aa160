import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { ServerError } from '../base/server-error.ts'
import type { Batch } from '../model/batch.ts'
import { InferenceRequest, type InferenceRequestFields } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { emptyModelConfig, type ModelConfig } from '../config/model-config.ts'
import { ModelSignature } from '../config/model-signature.ts'
import { normaliseModelConfig } from '../config/normalise-model-config.ts'
import { parseModelConfigText } from '../repository/text-format-reader.ts'
import { Tensor } from '../tensor/tensor.ts'
import { SequenceScheduler } from './sequence-scheduler.ts'
import { HeldInstance } from '../../test/fakes/held-instance.ts'
import { sequenceSettings } from './sequence-settings.ts'
import type { StartHold } from './start-hold.ts'

/** Adds its input X to the state S, if there is one, and gives both out. */
class AddingInstance extends HeldInstance {
  override answer = (request: InferenceRequest): void => request.respond(InferenceResponse.of(outputsOf(request)))

  override describe({ requests }: Batch): string {
    const texts = requests.map(({ id, inputs }) => {
      const ready = inputs.find(({ name }) => name === 'READY')
      return ready?.bytes[0] === 0 ? '-' : id
    })
    return `${this.name}:${texts.join('+')}`
  }
}

function outputsOf({ inputs }: InferenceRequest): Tensor[] {
  const value = (name: string): number => inputs.find((input) => input.name === name)?.bytes[0] ?? 0
  const sum = Uint8Array.of(value('X') + value('S'))
  return [new Tensor('Y', 'UINT8', [1], sum), new Tensor('S_OUT', 'UINT8', [1], sum)]
}

type Setup = {
  batching?: string
  maxBatchSize?: number
  instanceCount?: number
  maxQueueSize?: number
  extra?: string
  startHold?: StartHold
}

function schedulerUnderTest(setup: Setup = {}) {
  const { batching = '', maxBatchSize = 0, instanceCount = 1, maxQueueSize = 100, extra = '' } = setup
  const { config: parsed } = parseModelConfigText(`
    name: "m" max_batch_size: ${maxBatchSize} ${extra}
    input { name: "X" data_type: TYPE_UINT8 dims: -1 } output { name: "Y" data_type: TYPE_UINT8 dims: -1 }
    sequence_batching { ${batching} }
  `)
  const config: ModelConfig = { ...emptyModelConfig(), ...parsed }
  normaliseModelConfig(config)
  const clock = new ManualClock()
  const seen: string[] = []
  const outcomes: string[] = []
  const instances = Array.from({ length: instanceCount }, (_, i) => new AddingInstance(`i${i}`, seen))
  assert.ok(config.sequenceBatching !== null)
  const initialStates = new Map(batching.includes('data_file') ? [['S', Uint8Array.of(7)]] : [])
  const settings = sequenceSettings(config, config.sequenceBatching, new ModelSignature(config), {
    maxQueueSize,
    initialStates,
    startHold: setup.startHold ?? null,
  })
  const turns: (() => void)[] = []
  const log = new MemoryLog()
  const scheduler = new SequenceScheduler(
    { clock, afterThisTurn: (fire) => void turns.push(fire), log },
    instances,
    settings,
  )
  const endTurn = (): void => {
    for (const fire of turns.splice(0)) fire()
  }
  /** `s1` starts, `e1` ends, `b1` does both, `n1` neither; the number is the correlation id. */
  const send = (
    id: string,
    fields: Partial<InferenceRequestFields> & { rows?: number; width?: number } = {},
  ): InferenceRequest => {
    const [kind = '', ...digits] = id
    const { rows = 1, width = 1, ...rest } = fields
    const shape = maxBatchSize > 0 ? [rows, width] : [width]
    const request = new InferenceRequest({
      modelName: 'm',
      id,
      inputs: [new Tensor('X', 'UINT8', shape, new Uint8Array(rows * width).fill(1))],
      correlationId: BigInt(Number.parseInt(digits.join(''), 10)),
      isSequenceStart: kind === 's' || kind === 'b',
      isSequenceEnd: kind === 'e' || kind === 'b',
      sink: ({ error, outputs }) => {
        const values = outputs.map(({ name, bytes }) => `${name}=${bytes[0]}`).join(' ')
        outcomes.push(error === null ? `${id} ${values}` : `${id} ${error.code} ${error.message}`)
      },
      ...rest,
    })
    request.batchSize = maxBatchSize > 0 ? rows : 0
    scheduler.enqueue(request)
    return request
  }
  const first = instances[0] as HeldInstance
  return { clock, scheduler, instances, seen, outcomes, send, endTurn, first, warnings: () => log.entries }
}

const startText = (id: number): string =>
  `inference request for sequence ${id} to model 'm' must specify the START flag on the first request of the sequence`

test('requests of a sequence run one after the other in their order, whatever comes between', () => {
  const { send, first, seen } = schedulerUnderTest({ batching: 'oldest { max_candidate_sequences: 4 }' })
  for (const id of ['s1', 'n1', 's2', 'e1', 'e2']) send(id)
  for (let i = 0; i < 5; i++) first.finish()
  assert.deepEqual(seen, ['i0:s1', 'i0:n1', 'i0:s2', 'i0:e1', 'i0:e2'])
})

test('a held start waits for its requests in slots and in the backlog, and then all instances run', () => {
  const startHold = { requestCount: 3, backlogCount: 1 }
  const { send, endTurn, seen } = schedulerUnderTest({ maxBatchSize: 1, instanceCount: 2, startHold })
  for (const id of ['s1', 'n1', 's2']) send(id)
  endTurn()
  assert.deepEqual(seen, [], 'the backlog is empty')
  send('s3')
  endTurn()
  assert.deepEqual(seen, ['i0:s1', 'i1:s2'])
})

test('for a held start, a second sequence of one id is in the backlog', () => {
  const startHold = { requestCount: 2, backlogCount: 1 }
  const { send, endTurn, seen } = schedulerUnderTest({ maxBatchSize: 1, startHold })
  for (const id of ['s1', 'e1']) send(id)
  endTurn()
  assert.deepEqual(seen, [])
  send('s1')
  endTurn()
  assert.deepEqual(seen, ['i0:s1'])
})

test('a held start does not keep the server from stopping', async () => {
  const { send, seen, scheduler, first } = schedulerUnderTest({ startHold: { requestCount: 3, backlogCount: 0 } })
  send('b1')
  const drained = scheduler.drain()
  first.finish()
  await drained
  assert.deepEqual(seen, ['i0:b1'])
})

test('sequences stay together on an instance that is done before it answers, as one of ONNX Runtime is', () => {
  const { send, endTurn, seen, first } = schedulerUnderTest({ maxBatchSize: 2 })
  for (const id of ['s1', 's2', 'n1', 'n2', 'e1', 'e2']) send(id)
  endTurn()
  for (let i = 0; i < 3; i++) {
    const batch = first.batches.shift() as Batch
    batch.executed()
    for (const request of batch.requests) first.answer(request)
    endTurn()
  }
  assert.deepEqual(seen, ['i0:s1+s2', 'i0:n1+n2', 'i0:e1+e2'])
})

test('a START in the middle of a sequence is warned of, at most once a second', () => {
  const { send, clock, warnings, outcomes, first } = schedulerUnderTest()
  for (const id of ['s1', 'e1', 's1']) send(id)
  assert.equal(warnings().length, 0, 'after END it is no conflict')
  send('s1')
  send('s1')
  assert.deepEqual(
    warnings().map(({ level, message }) => [level, message]),
    [
      [
        'warning',
        "sequence 1 for model 'm' has a conflict. The previous sequence did not end before this sequence start. Previous sequence will be terminated early.",
      ],
    ],
  )
  clock.advanceMs(1000)
  send('s1')
  assert.equal(warnings().length, 2)
  for (let i = 0; i < 6; i++) first.finish()
  assert.equal(outcomes.length, 6, 'all of them run')
})

test('a sequence begins with START and after END it must start again', () => {
  const { send, first, outcomes } = schedulerUnderTest()
  send('n1')
  send('s1')
  send('e1')
  send('n1')
  first.finish()
  first.finish()
  send('n1')
  assert.deepEqual(outcomes, [
    `n1 INVALID_ARG ${startText(1)}`,
    `n1 INVALID_ARG ${startText(1)}`,
    's1 Y=1 S_OUT=1',
    'e1 Y=1 S_OUT=1',
    `n1 INVALID_ARG ${startText(1)}`,
  ])
})

test('a request needs a correlation id and one row', () => {
  const { send, outcomes } = schedulerUnderTest({ maxBatchSize: 4 })
  send('s0')
  send('s0', { correlationId: '' })
  send('s1', { rows: 2 })
  assert.deepEqual(outcomes, [
    "s0 INVALID_ARG inference request to model 'm' must specify a non-zero or non-empty correlation ID",
    "s0 INVALID_ARG inference request to model 'm' must specify a non-zero or non-empty correlation ID",
    "s1 INVALID_ARG inference request to model 'm' must specify batch-size 1 due to requirements of sequence batcher",
  ])
})

test('a number and its digits as text are two sequences', () => {
  const { send, first, seen } = schedulerUnderTest({ batching: 'oldest { max_candidate_sequences: 2 }' })
  send('s5')
  send('n5', { correlationId: '5', isSequenceStart: true })
  first.finish()
  assert.deepEqual(seen, ['i0:s5', 'i0:n5'])
})

test('sequences spread over instances and stay where they began', () => {
  const { send, instances, seen, endTurn } = schedulerUnderTest({ maxBatchSize: 2, instanceCount: 2 })
  for (const id of ['s1', 's2', 's3']) send(id)
  endTurn()
  assert.deepEqual(seen, ['i0:s1+s3', 'i1:s2'])
  instances[1]?.finish()
  send('n1')
  send('n2')
  endTurn()
  assert.deepEqual(seen.slice(2), ['i1:n2'], 'sequence 1 waits for its own instance')
})

test('direct tells the model which places of the batch are empty', () => {
  const ready =
    'control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } }'
  const { send, first, seen, endTurn, outcomes } = schedulerUnderTest({ maxBatchSize: 4, batching: ready })
  for (const id of ['s1', 's2', 's3']) send(id)
  endTurn()
  first.finish()
  send('n3')
  send('n1')
  endTurn()
  first.finish()
  assert.deepEqual(seen, ['i0:s1+s2+s3', 'i0:n1+-+n3'])
  assert.equal(outcomes.length, 5, 'an empty place answers nobody')
})

test('without a READY control there are no empty places', () => {
  const { send, first, seen, endTurn } = schedulerUnderTest({ maxBatchSize: 4 })
  for (const id of ['s1', 's2', 's3']) send(id)
  endTurn()
  first.finish()
  for (const id of ['n1', 'n3']) send(id)
  endTurn()
  assert.deepEqual(seen, ['i0:s1+s2+s3', 'i0:n1+n3'])
})

test('only requests of one shape run together', () => {
  const { send, first, seen, endTurn } = schedulerUnderTest({ maxBatchSize: 4 })
  send('s1')
  send('s2', { width: 3 })
  send('s3')
  endTurn()
  first.finish()
  assert.deepEqual(seen, ['i0:s1+s3', 'i0:s2'])
})

test('oldest takes the requests that wait longest, whichever slot they are in', () => {
  const { send, first, seen, endTurn } = schedulerUnderTest({
    maxBatchSize: 2,
    batching: 'oldest { max_candidate_sequences: 8 }',
  })
  for (const id of ['s1', 's2', 's3', 's4']) send(id)
  endTurn()
  send('n1')
  first.finish()
  first.finish()
  assert.deepEqual(seen, ['i0:s1+s2', 'i0:s3+s4', 'i0:n1'])
})

test('oldest waits for a preferred size, but not past its delay', () => {
  const { send, clock, seen, endTurn } = schedulerUnderTest({
    maxBatchSize: 4,
    batching: 'oldest { max_candidate_sequences: 8 preferred_batch_size: 3 max_queue_delay_microseconds: 100 }',
  })
  send('s1')
  endTurn()
  clock.advanceUs(60)
  send('s2')
  endTurn()
  clock.advanceUs(39)
  assert.deepEqual(seen, [])
  clock.advanceUs(1)
  assert.deepEqual(seen, ['i0:s1+s2'])
})

test('direct waits for its share of slots, but not past its delay', () => {
  const { send, clock, first, seen, endTurn } = schedulerUnderTest({
    maxBatchSize: 4,
    batching: 'direct { max_queue_delay_microseconds: 100 minimum_slot_utilization: 0.5 }',
  })
  send('s1')
  endTurn()
  send('s2')
  endTurn()
  first.finish()
  send('n1')
  endTurn()
  clock.advanceUs(99)
  assert.deepEqual(seen, ['i0:s1+s2'])
  clock.advanceUs(1)
  assert.deepEqual(seen, ['i0:s1+s2', 'i0:n1'])
})

test('a sequence without a slot waits with all its requests until another one ends', () => {
  const { send, first, seen } = schedulerUnderTest()
  for (const id of ['s1', 's2', 'e2', 's3', 'e1']) send(id)
  for (let i = 0; i < 5; i++) first.finish()
  assert.deepEqual(seen, ['i0:s1', 'i0:e1', 'i0:s2', 'i0:e2', 'i0:s3'])
})

test('sequences of one id, one behind the other, let those in between have the slot', () => {
  const { send, first, seen } = schedulerUnderTest()
  for (const id of ['b1', 's1', 'e1', 'b2', 'b3', 'b1', 'b2', 'b1']) send(id)
  for (let i = 0; i < 8; i++) first.finish()
  assert.deepEqual(seen, ['i0:b1', 'i0:s1', 'i0:e1', 'i0:b2', 'i0:b3', 'i0:b1', 'i0:b2', 'i0:b1'])
})

test('a sequence behind another one of its id takes the first slot that is free', () => {
  const control = 'control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }'
  const { send, endTurn, first, seen } = schedulerUnderTest({ maxBatchSize: 4, batching: control })
  for (const id of ['b1', 'b2', 's3', 's2', 'e2']) send(id)
  for (let i = 0; i < 3; i++) {
    endTurn()
    first.finish()
  }
  assert.deepEqual(seen, ['i0:b1+b2+s3', 'i0:s2', 'i0:e2'])
})

test('the time a request gives itself counts from its arrival, also behind another sequence of its id', () => {
  const { send, first, clock, outcomes, seen } = schedulerUnderTest()
  send('b1')
  send('b2')
  send('b1', { timeoutUs: 1000n })
  clock.advanceMs(2)
  first.finish()
  clock.advanceMs(2)
  assert.deepEqual(outcomes.slice(1), ['b1 UNAVAILABLE timeout of the corresponding sequence has been expired'])
  first.finish()
  assert.deepEqual(seen, ['i0:b1', 'i0:b2'])
})

test('the time a request gives itself limits the wait in the backlog, for its whole sequence', () => {
  const { send, clock, outcomes, scheduler, first, seen } = schedulerUnderTest()
  send('s1', { timeoutUs: 10n })
  send('s2')
  send('n2', { timeoutUs: 50n })
  send('s3')
  clock.advanceMs(0.05)
  const text = 'UNAVAILABLE timeout of the corresponding sequence has been expired'
  assert.deepEqual(outcomes, [`s2 ${text}`, `n2 ${text}`])
  send('n2')
  assert.equal(outcomes[2], `n2 INVALID_ARG ${startText(2)}`)
  assert.equal(scheduler.pendingCount, 1)
  send('e1')
  first.finish()
  first.finish()
  assert.deepEqual(seen, ['i0:s1', 'i0:e1', 'i0:s3'])
})

test('a sequence that sends nothing for too long loses its slot to the next one', () => {
  const { send, clock, first, seen, outcomes } = schedulerUnderTest({ batching: 'max_sequence_idle_microseconds: 100' })
  send('s1')
  send('s2')
  clock.advanceUs(150)
  first.finish()
  clock.advanceUs(99)
  send('n1')
  first.finish()
  clock.advanceUs(100)
  assert.deepEqual(seen, ['i0:s1', 'i0:n1', 'i0:s2'], 'time in which it waits or runs does not count')
  send('n1')
  assert.equal(outcomes.at(-1), `n1 INVALID_ARG ${startText(1)}`)
  first.finish()
  clock.advanceUs(1000)
  assert.equal(clock.pendingCount, 0, 'an idle model holds no timer')
})

test('a request that is cancelled while it waits takes the rest of its sequence along, and no other', () => {
  const { send, first, outcomes, seen } = schedulerUnderTest({ batching: 'oldest { max_candidate_sequences: 2 }' })
  send('s1')
  const cancelled = send('n1')
  send('e1')
  send('s2')
  cancelled.cancel()
  assert.deepEqual(outcomes, ['n1 CANCELLED ', 'e1 CANCELLED '])
  send('n1')
  assert.equal(outcomes.at(-1), `n1 INVALID_ARG ${startText(1)}`)
  first.finish()
  first.finish()
  assert.deepEqual(seen, ['i0:s1', 'i0:s2'])
})

test('a request that was called off while it ran ends its sequence', () => {
  const { send, first, outcomes } = schedulerUnderTest()
  send('s1')
  send('n1')
  first.finish(new ServerError('CANCELLED', ''))
  assert.deepEqual(outcomes, ['s1 CANCELLED ', 'n1 CANCELLED '])
  send('s1')
  first.finish()
  assert.equal(outcomes.at(-1), 's1 Y=1 S_OUT=1')
})

test('a request that failed does not end its sequence', () => {
  const { send, first, outcomes } = schedulerUnderTest()
  send('s1')
  first.finish(new ServerError('INTERNAL', 'oh'))
  send('e1')
  first.finish()
  assert.deepEqual(outcomes, ['s1 INTERNAL oh', 'e1 Y=1 S_OUT=1'])
})

const state = (initial: string): string =>
  `state { input_name: "S" output_name: "S_OUT" data_type: TYPE_UINT8 dims: 1 ${initial} }`

test('state goes from request to request of its sequence, and START begins anew', () => {
  const { send, first, outcomes } = schedulerUnderTest({
    batching: `oldest { max_candidate_sequences: 2 } ${state('')}`,
  })
  for (const id of ['s1', 's2', 'n1', 'n1', 's1', 'e1']) send(id)
  for (let i = 0; i < 6; i++) first.finish()
  assert.deepEqual(outcomes, ['s1 Y=1', 's2 Y=1', 'n1 Y=2', 'n1 Y=3', 's1 Y=1', 'e1 Y=2'])
})

test('state begins with its file, survives a failure as it was, and is shown to who may and wants to see it', () => {
  const file = 'initial_state { name: "i" data_type: TYPE_UINT8 dims: 1 data_file: "f" }'
  const extra = 'output { name: "S_OUT" data_type: TYPE_UINT8 dims: 1 }'
  const { send, first, outcomes } = schedulerUnderTest({ batching: state(file), extra })
  send('s1')
  first.finish()
  send('n1')
  first.finish(new ServerError('INTERNAL', 'oh'))
  const asked = send('n1', { requestedOutputs: ['Y'] })
  assert.deepEqual(asked.requestedOutputs, ['Y', 'S_OUT'], 'the model is asked for its state all the same')
  first.finish()
  assert.deepEqual(outcomes, ['s1 Y=8 S_OUT=8', 'n1 INTERNAL oh', 'n1 Y=9'])
})

test('a request above the bound of the queue is refused and its sequence goes on', () => {
  const { send, first, outcomes } = schedulerUnderTest({ maxQueueSize: 1 })
  for (const id of ['s1', 'n1', 'n1']) send(id)
  assert.deepEqual(outcomes, ['n1 UNAVAILABLE [request id: n1] Exceeds maximum queue size'])
  first.finish()
  send('e1')
  first.finish()
  first.finish()
  assert.equal(outcomes.length, 4)
})

test('requests wait for their instance to come back', () => {
  const { send, first, seen, scheduler } = schedulerUnderTest()
  first.isReady = false
  send('s1')
  assert.deepEqual(seen, [])
  first.isReady = true
  scheduler.instancesChanged()
  assert.deepEqual(seen, ['i0:s1'])
})

test('preserve_ordering answers in the order of arrival', () => {
  const { send, instances, outcomes } = schedulerUnderTest({
    instanceCount: 2,
    batching: 'oldest { max_candidate_sequences: 1 preserve_ordering: true }',
  })
  send('s1')
  send('s2')
  instances[1]?.finish()
  assert.equal(outcomes.length, 0)
  instances[0]?.finish()
  assert.deepEqual(
    outcomes.map((text: string) => text.slice(0, 2)),
    ['s1', 's2'],
  )
})

test('draining refuses what is new, runs what waits, and holds no timer afterwards', async () => {
  const { send, first, scheduler, outcomes, clock } = schedulerUnderTest()
  send('s1')
  send('n1')
  const drained = scheduler.drain()
  send('n1')
  assert.match(outcomes[0] ?? '', /^n1 UNAVAILABLE \[request id: n1\] Server is stopping/)
  first.finish()
  first.finish()
  await drained
  assert.equal(clock.pendingCount, 0)
})

test('closing answers what waits, in slots and in the backlog', async () => {
  const { send, first, scheduler, outcomes } = schedulerUnderTest()
  for (const id of ['s1', 'n1', 's2']) send(id)
  const drained = scheduler.drain()
  scheduler.close()
  assert.equal(outcomes.length, 2)
  first.finish()
  await drained
  assert.equal(outcomes.length, 3)
})

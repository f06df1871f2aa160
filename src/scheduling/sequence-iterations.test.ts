import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
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

/** Counts up its state with every execution, and answers a request when the count is what the request's X says. */
class CountingInstance extends HeldInstance {
  override answer = (request: InferenceRequest): void => {
    const count = byteOf(request, 'S') + 1
    const outputs = [new Tensor('Y', 'UINT8', [1, 1], Uint8Array.of(count)), stateOf(count)]
    if (count < byteOf(request, 'X')) request.reschedule([stateOf(count)])
    else request.respond(InferenceResponse.of(outputs))
  }

  override describe({ requests }: Batch): string {
    return requests.map((request) => `${request.id}:${byteOf(request, 'ID')}${byteOf(request, 'START')}`).join(' ')
  }
}

const byteOf = ({ inputs }: InferenceRequest, name: string): number =>
  inputs.find((input) => input.name === name)?.bytes[0] ?? 0
const stateOf = (count: number): Tensor => new Tensor('S_OUT', 'UINT8', [1, 1], Uint8Array.of(count))

const controls = `
  control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  state { input_name: "S" output_name: "S_OUT" data_type: TYPE_UINT8 dims: 1 }`

function schedulerUnderTest({ batching = 'oldest { max_candidate_sequences: 4 }', iterative = true } = {}) {
  const { config: parsed } = parseModelConfigText(`
    name: "m" max_batch_size: 4
    input { name: "X" data_type: TYPE_UINT8 dims: 1 } output { name: "Y" data_type: TYPE_UINT8 dims: 1 }
    sequence_batching { iterative_sequence: ${iterative} ${controls} ${batching} }
  `)
  const config: ModelConfig = { ...emptyModelConfig(), ...parsed }
  normaliseModelConfig(config)
  assert.ok(config.sequenceBatching !== null)
  const clock = new ManualClock()
  const instance = new CountingInstance('counting')
  const outcomes: string[] = []
  const settings = sequenceSettings(config, config.sequenceBatching, new ModelSignature(config), {
    maxQueueSize: 3,
    initialStates: new Map(),
  })
  const turns: (() => void)[] = []
  const scheduler = new SequenceScheduler(
    { clock, afterThisTurn: (fire) => void turns.push(fire) },
    [instance],
    settings,
  )
  const endTurn = (): void => {
    for (const fire of turns.splice(0)) fire()
  }
  const finish = (error: ServerError | null = null): void => {
    instance.finish(error)
    endTurn()
  }
  const send = (id: string, x: number, fields: Partial<InferenceRequestFields> = {}): InferenceRequest => {
    const request = new InferenceRequest({
      modelName: 'm',
      id,
      inputs: [new Tensor('X', 'UINT8', [1, 1], Uint8Array.of(x))],
      sink: ({ error, outputs }) => {
        const values = outputs.map(({ name, bytes }) => `${name}=${bytes[0]}`).join(' ')
        outcomes.push(error === null ? `${id} ${values}` : `${id} ${error.code} ${error.message}`)
      },
      ...fields,
    })
    request.batchSize = 1
    scheduler.enqueue(request)
    return request
  }
  return { clock, scheduler, instance, outcomes, send, endTurn, finish, seen: instance.seen }
}

test('a request without an id runs until the model answers it, and START is true the first time only', () => {
  const { send, endTurn, finish, seen, outcomes, scheduler } = schedulerUnderTest()
  send('a', 3)
  endTurn()
  for (let i = 0; i < 3; i++) finish()
  assert.deepEqual(seen, ['a:11', 'a:10', 'a:10'])
  assert.deepEqual(outcomes, ['a Y=3'])
  assert.equal(scheduler.pendingCount, 0)
})

test('requests at different iterations share executions, and a new one joins those under way', () => {
  const { send, endTurn, finish, seen, outcomes } = schedulerUnderTest()
  send('a', 3)
  send('b', 1)
  endTurn()
  send('c', 2)
  for (let i = 0; i < 3; i++) finish()
  assert.deepEqual(seen, ['a:11 b:21', 'c:31 a:10', 'c:30 a:10'])
  assert.deepEqual(outcomes, ['b Y=1', 'c Y=2', 'a Y=3'])
})

test('an iterating request holds its slot; the next waits for the answer', () => {
  const { send, endTurn, finish, seen } = schedulerUnderTest({ batching: 'oldest { max_candidate_sequences: 1 }' })
  send('a', 2)
  send('b', 1)
  endTurn()
  finish()
  finish()
  assert.deepEqual(seen, ['a:11', 'a:10', 'b:21'])
})

test('a request that is cancelled runs no further iteration, whether it waits for it or runs', () => {
  const { send, endTurn, finish, seen, outcomes, clock, instance, scheduler } = schedulerUnderTest()
  const running = send('a', 9)
  endTurn()
  running.cancel()
  finish()
  assert.deepEqual(outcomes, ['a CANCELLED '])
  const waiting = send('b', 9)
  endTurn()
  instance.isReady = false
  finish()
  assert.equal(scheduler.pendingCount, 1)
  waiting.cancel()
  assert.deepEqual(outcomes, ['a CANCELLED ', 'b CANCELLED '])
  assert.equal(scheduler.pendingCount, 0)
  assert.deepEqual(seen, ['a:11', 'b:21'])
  clock.advanceMs(10_000)
  assert.equal(clock.pendingCount, 0, 'no timer is left')
})

test('a request that fails or whose worker dies after it was rescheduled ends, and its slot is free', () => {
  const { send, endTurn, finish, instance, outcomes, seen } = schedulerUnderTest({
    batching: 'oldest { max_candidate_sequences: 1 }',
  })
  send('a', 9)
  endTurn()
  finish()
  finish(new ServerError('INTERNAL', 'no'))
  const dying = send('b', 9)
  send('c', 1)
  endTurn()
  dying.reschedule()
  dying.fail(new ServerError('INTERNAL', 'died'))
  instance.batches.shift()?.executed()
  endTurn()
  finish()
  assert.deepEqual(outcomes, ['a INTERNAL no', 'b INTERNAL died', 'c Y=1'])
  assert.deepEqual(seen, ['a:11', 'a:10', 'b:21', 'c:31'])
})

test('draining lets iterations come to their end; closing does not', async () => {
  const { send, endTurn, finish, scheduler, outcomes } = schedulerUnderTest()
  send('a', 3)
  endTurn()
  const drained = scheduler.drain()
  for (let i = 0; i < 3; i++) finish()
  await drained
  assert.deepEqual(outcomes, ['a Y=3'])
  const other = schedulerUnderTest()
  other.send('b', 3)
  other.endTurn()
  other.scheduler.close()
  other.finish()
  assert.match(other.outcomes.join(), /^b UNAVAILABLE .*Server is stopping/)
})

test('a sequence of a client keeps its rules in an iterative model: START, and one request after the other', () => {
  const { send, endTurn, finish, outcomes, seen } = schedulerUnderTest()
  send('a', 1, { correlationId: 7n })
  send('b', 2, { correlationId: 7n, isSequenceStart: true })
  send('c', 3, { correlationId: 7n, isSequenceEnd: true })
  endTurn()
  for (let i = 0; i < 3; i++) finish()
  assert.match(outcomes[0] ?? '', /^a INVALID_ARG .*sequence 7 .*START flag/)
  assert.deepEqual(outcomes.slice(1), ['b Y=2', 'c Y=3'])
  assert.deepEqual(seen, ['b:71', 'b:70', 'c:70'])
})

test('the answer of an iterative model ends the sequence of a client that has nothing more to ask', () => {
  const { scheduler, send, endTurn, finish, outcomes } = schedulerUnderTest()
  send('a', 2, { correlationId: 7n, isSequenceStart: true })
  endTurn()
  finish()
  assert.equal(scheduler.sequenceCount, 1)
  finish()
  assert.equal(scheduler.sequenceCount, 0)
  send('b', 1, { correlationId: 7n })
  assert.match(outcomes.at(-1) ?? '', /^b INVALID_ARG .*must specify the START flag/)
  send('c', 1, { correlationId: 7n, isSequenceStart: true })
  endTurn()
  finish()
  assert.match(outcomes.at(-1) ?? '', /^c Y=1/)
})

test('a request whose worker dies after it was rescheduled leaves the later requests of its sequence in their queue', () => {
  const { send, endTurn, finish, instance, outcomes, scheduler } = schedulerUnderTest()
  const dying = send('a', 9, { correlationId: 7n, isSequenceStart: true })
  endTurn()
  send('b', 1, { correlationId: 7n })
  dying.reschedule()
  dying.fail(new ServerError('INTERNAL', 'died'))
  instance.batches.shift()?.executed()
  endTurn()
  finish()
  assert.deepEqual(outcomes.map((text) => text.slice(0, 3)), ['a I', 'b Y']) // prettier-ignore
  assert.deepEqual([scheduler.pendingCount, scheduler.sequenceCount], [0, 0])
})

test('a model without iterative_sequence cannot have a request again, and is told how it could', () => {
  const { send, endTurn, finish, outcomes } = schedulerUnderTest({ iterative: false })
  send('a', 2)
  send('b', 2, { correlationId: 1n, isSequenceStart: true })
  endTurn()
  finish()
  assert.match(outcomes[0] ?? '', /^a INVALID_ARG .*non-zero or non-empty correlation ID/)
  assert.match(
    outcomes[1] ?? '',
    /^b UNSUPPORTED Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE.* model 'm' .*iterative_sequence: true/,
  )
})

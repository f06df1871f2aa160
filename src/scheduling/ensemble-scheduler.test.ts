import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { ServerError } from '../base/server-error.ts'
import { EnsemblePlan } from '../config/ensemble-plan.ts'
import { InferenceRequest, type InferenceRequestFields } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { emptyModelConfig, type ModelConfig } from '../config/model-config.ts'
import { ModelSignature } from '../config/model-signature.ts'
import { Tensor } from '../tensor/tensor.ts'
import { EnsembleScheduler } from './ensemble-scheduler.ts'

/** `model in>out,out`: tensors of the called model are named like those of the ensemble. */
type StepText = string

function configOf(name: string, inputs: string[], outputs: string[], fields: Partial<ModelConfig> = {}): ModelConfig {
  const tensor = {
    dataType: 'TYPE_UINT8',
    dims: [1],
    reshape: null,
    isShapeTensor: false,
    isNonLinearFormatIo: false,
  } as const
  return {
    ...emptyModelConfig(),
    name,
    input: inputs.map((each) => ({
      ...tensor,
      dims: [1],
      name: each,
      format: 'FORMAT_NONE',
      allowRaggedBatch: false,
      optional: each.endsWith('?'),
    })),
    output: outputs.map((each) => ({ ...tensor, dims: [1], name: each, labelFilename: '' })),
    ...fields,
  }
}

type Setup = {
  inputs?: string[]
  outputs: string[]
  steps: StepText[]
  decoupled?: string[]
  maxInflightRequests?: number
  isLikeTriton?: boolean
  /** Of the ensemble; its outputs have it as their `reshape` where it is given. */
  reshape?: number[]
  maxBatchSize?: number
}

function schedulerUnderTest({ inputs = ['I'], outputs, steps, decoupled = [], ...options }: Setup) {
  const parsed = steps.map((text) => {
    const [modelName = '', flow = ''] = text.split(' ')
    const [ins = [], outs = []] = flow.split('>').map((side) => side.split(',').filter((each) => each !== ''))
    return { modelName, ins, outs }
  })
  const same = (names: string[]): Map<string, string> => new Map(names.map((name) => [name, name]))
  const step = parsed.map(({ modelName, ins, outs }) => ({
    modelName,
    modelVersion: -1,
    inputMap: same(ins),
    outputMap: same(outs),
    modelNamespace: '',
  }))
  const ensembleScheduling = { step, maxInflightRequests: options.maxInflightRequests ?? 0 }
  const { maxBatchSize = 0, reshape } = options
  const plain = configOf('e', inputs, outputs, { platform: 'ensemble', ensembleScheduling, maxBatchSize })
  const reshaped = plain.output.map((output) => ({ ...output, dims: [2, 2], reshape: { shape: reshape ?? [] } }))
  const config = reshape === undefined ? plain : { ...plain, output: reshaped }
  const models = new Map(
    parsed.map(({ modelName, ins, outs }) => {
      const policy = { modelTransactionPolicy: { decoupled: decoupled.includes(modelName) } }
      return [modelName, configOf(modelName, ins, outs, { ...policy, maxBatchSize })]
    }),
  )
  const signature = new ModelSignature(config)
  const plan = new EnsemblePlan(config, signature, ({ modelName }) => models.get(modelName) as ModelConfig, {
    isLikeTriton: options.isLikeTriton ?? false,
  })
  const open: InferenceRequest[] = []
  const scheduler = new EnsembleScheduler(
    { clock: new ManualClock(), infer: (request) => void open.push(request) },
    plan,
    signature,
  )
  const outcomes: string[] = []
  const responses: InferenceResponse[] = []
  const memory = { held: 0 }
  const send = (fields: Partial<InferenceRequestFields> = {}): InferenceRequest => {
    const request = new InferenceRequest({
      modelName: 'e',
      inputs: inputs.filter((name) => !name.endsWith('?')).map((name) => tensorOf(name, 1)),
      sink: (response) => {
        responses.push(response)
        outcomes.push(textOf(response))
      },
      ...fields,
    })
    scheduler.enqueue(request)
    return request
  }
  /** The oldest open request of the model; it stays open when the answer is not final. */
  const answer = (modelName: string, values: Record<string, number> | null, isFinal = true): InferenceRequest => {
    const index = open.findIndex((request) => request.modelName === modelName)
    const request = open[index]
    assert.ok(request !== undefined, `'${modelName}' has been called`)
    if (isFinal) open.splice(index, 1)
    if (values === null) request.respond(InferenceResponse.finalFlag())
    else {
      memory.held++
      const outputs = Object.entries(values).map(([name, value]) => tensorOf(name, value))
      request.respond(InferenceResponse.of(outputs, { isFinal, release: () => memory.held-- }))
    }
    return request
  }
  const called = (): string[] => open.map(({ modelName }) => modelName)
  return { scheduler, send, answer, open, called, outcomes, responses, memory }
}

const tensorOf = (name: string, value: number): Tensor => new Tensor(name, 'UINT8', [1], Uint8Array.of(value))

function textOf({ error, outputs, isFinal, isFlagOnly }: InferenceResponse): string {
  const end = isFinal ? '' : ' …'
  if (error !== null) return `${error.code} ${error.message}${end}`
  if (isFlagOnly) return 'end'
  return `${outputs.map(({ name, bytes }) => `${name}=${bytes[0]}`).join(' ')}${end}`
}

test('a step starts when its inputs are there, and steps that do not wait for each other run at once', () => {
  const { send, answer, called, outcomes } = schedulerUnderTest({
    outputs: ['O'],
    steps: ['a I>A', 'b I>B', 'c A,B>O'],
  })
  send()
  assert.deepEqual(called(), ['a', 'b'])
  answer('b', { B: 2 })
  assert.deepEqual(called(), ['a'])
  answer('a', { A: 3 })
  assert.deepEqual(called(), ['c'])
  answer('c', { O: 4 })
  assert.deepEqual(outcomes, ['O=4'])
})

test('an output with a reshape leaves the ensemble in the shape that its step gave it', () => {
  const setup: Setup = { outputs: ['O'], steps: ['a I>O'], reshape: [4], maxBatchSize: 8 }
  const { send, open, responses } = schedulerUnderTest(setup)
  send()
  open[0]?.respond(InferenceResponse.of([new Tensor('O', 'UINT8', [1, 4], new Uint8Array(4))]))
  assert.deepEqual(responses[0]?.outputs[0]?.shape, [1, 4])
})

test('only what the requested outputs need runs, and a step is asked only for what is needed', () => {
  const setup: Setup = { outputs: ['S', 'D', 'T'], steps: ['a I>S,D', 'b S>T'] }
  const { send, answer, open, called, outcomes } = schedulerUnderTest(setup)
  send({ requestedOutputs: ['S'] })
  assert.deepEqual(open[0]?.requestedOutputs, ['S'])
  answer('a', { S: 1 })
  send({ requestedOutputs: ['T'] })
  answer('a', { S: 1 })
  assert.deepEqual(called(), ['b'])
  answer('b', { T: 2 })
  assert.deepEqual(outcomes, ['S=1', 'T=2'])
})

test('with Triton’s way of leaving steps out the same requests end in its deadlock', () => {
  const setup: Setup = { outputs: ['S', 'D', 'T'], steps: ['a I>S,D', 'b S,D>T'], isLikeTriton: true }
  const { send, answer, outcomes, open } = schedulerUnderTest(setup)
  send({ requestedOutputs: ['S'] })
  send({ requestedOutputs: ['T'], id: 'x' })
  assert.equal(open.length, 0)
  const text = 'unexpected deadlock, at least one output is not set while no more ensemble steps can be made'
  assert.deepEqual(outcomes, [
    `INVALID_ARG in ensemble 'e', [request id: <id_unknown>] ${text}`,
    `INVALID_ARG in ensemble 'e', [request id: x] ${text}`,
  ])
  send({ requestedOutputs: ['S', 'T'] })
  answer('a', { S: 1, D: 2 })
  answer('b', { T: 3 })
  assert.equal(outcomes[2], 'T=3 S=1')
})

test('everything about a request but its inputs goes on to the steps', () => {
  const { send, open } = schedulerUnderTest({ outputs: ['O'], steps: ['a I>O'] })
  const parameters = new Map([['k', 'v']])
  send({
    id: 'r',
    correlationId: 7n,
    isSequenceStart: true,
    isSequenceEnd: true,
    priority: 2n,
    timeoutUs: 9n,
    parameters,
  })
  const { id, correlationId, isSequenceStart, isSequenceEnd, priority, timeoutUs } = open[0] as InferenceRequest
  assert.deepEqual(
    [id, correlationId, isSequenceStart, isSequenceEnd, priority, timeoutUs],
    ['r', 7n, true, true, 2n, 9n],
  )
  assert.equal(open[0]?.parameters, parameters)
})

test('an answer tells its sequence', () => {
  const { send, answer, responses } = schedulerUnderTest({ outputs: ['O'], steps: ['a I>O'] })
  send({ correlationId: 2n ** 64n - 1n, isSequenceEnd: true })
  answer('a', { O: 1 })
  send({ correlationId: 'abc' })
  answer('a', { O: 1 })
  send()
  answer('a', {})
  assert.deepEqual(
    responses.map(({ parameters }) => (parameters === null ? null : [...parameters.values()])),
    [[-1n, false, true], ['abc', false, false], null],
  )
})

test('the error of a step ends the request at once, says where, and calls the other steps off', () => {
  const { send, open, outcomes, memory, answer } = schedulerUnderTest({
    outputs: ['O'],
    steps: ['a I>A', 'b I>B', 'c A,B>O'],
  })
  send()
  open[1]?.fail(new ServerError('UNAVAILABLE', 'too busy'))
  assert.deepEqual(outcomes, ["UNAVAILABLE in ensemble 'e', too busy"])
  assert.equal(open[0]?.isCancelled, true)
  answer('a', { A: 1 })
  assert.equal(outcomes.length, 1)
  assert.equal(memory.held, 0, 'what came too late is given back')
})

test('a cancelled request starts no further step and calls off those under way', () => {
  const { send, answer, open, outcomes, memory, called } = schedulerUnderTest({
    outputs: ['O'],
    steps: ['a I>A', 'b A>O'],
  })
  const request = send()
  request.cancel()
  assert.equal(open[0]?.isCancelled, true)
  assert.deepEqual(outcomes, [], 'the step is running: it decides')
  answer('a', { A: 1 })
  assert.deepEqual(called(), [])
  assert.deepEqual(outcomes, ['CANCELLED '])
  assert.equal(memory.held, 0)
})

test('what a step leaves out and what a client leaves out reach no step, and the rest goes on', () => {
  const { send, answer, open, outcomes } = schedulerUnderTest({
    inputs: ['I', 'J?'],
    outputs: ['O', 'P'],
    steps: ['a I,J?>A,P', 'b A>O'],
  })
  send()
  assert.deepEqual(
    open[0]?.inputs.map(({ name }) => name),
    ['I'],
  )
  answer('a', {})
  assert.deepEqual(open[0]?.inputs, [])
  answer('b', { O: 5 })
  assert.deepEqual(outcomes, ['O=5'])
})

test('each response of a decoupled step goes through the rest by itself, answered in order, and the end comes last', () => {
  const { send, answer, outcomes, called, memory, responses } = schedulerUnderTest({
    outputs: ['O'],
    steps: ['d I>D', 'p I>P', 'b D,P>O'],
    decoupled: ['d'],
  })
  send()
  answer('d', { D: 1 }, false)
  assert.deepEqual(called(), ['d', 'p'], 'the other input is not there yet')
  answer('p', { P: 9 })
  answer('d', { D: 2 }, false)
  assert.deepEqual(called(), ['d', 'b', 'b'])
  answer('b', { O: 11 })
  answer('d', null)
  assert.deepEqual(outcomes, ['O=11 …'])
  answer('b', { O: 12 })
  assert.deepEqual(outcomes, ['O=11 …', 'O=12'])
  for (const response of responses) response.release()
  assert.equal(memory.held, 0)
})

test('responses of one decoupled step keep their order though their further steps end in another', () => {
  const { send, answer, open, outcomes } = schedulerUnderTest({
    outputs: ['O'],
    steps: ['d I>D', 'b D>O'],
    decoupled: ['d'],
  })
  send()
  answer('d', { D: 1 }, false)
  answer('d', { D: 2 }, false)
  open.at(-1)?.respond(InferenceResponse.of([tensorOf('O', 2)]))
  assert.deepEqual(outcomes, [])
  answer('b', { O: 1 })
  answer('d', null)
  assert.deepEqual(outcomes, ['O=1 …', 'O=2 …', 'end'])
})

test('a decoupled step that answers nothing ends the request with nothing', () => {
  const { send, answer, outcomes } = schedulerUnderTest({ outputs: ['O'], steps: ['d I>D', 'b D>O'], decoupled: ['d'] })
  send()
  answer('d', null)
  assert.deepEqual(outcomes, ['end'])
})

test('the memory of every step is held until the answer is released, and then given back once', () => {
  const { send, answer, responses, memory } = schedulerUnderTest({ outputs: ['O'], steps: ['a I>A', 'b A>O'] })
  send()
  answer('a', { A: 1 })
  answer('b', { O: 2 })
  assert.equal(memory.held, 2, 'an output may be a view on an input')
  responses[0]?.release()
  responses[0]?.release()
  assert.equal(memory.held, 0)
})

test('no more requests of a step are in flight than max_inflight_requests, and none is forgotten', () => {
  const { send, answer, open, called, outcomes } = schedulerUnderTest({
    outputs: ['O'],
    steps: ['a I>A', 'b A>O'],
    maxInflightRequests: 1,
  })
  const requests = [send(), send(), send()]
  assert.deepEqual(called(), ['a'])
  requests[1]?.cancel()
  assert.deepEqual(outcomes, ['CANCELLED '])
  answer('a', { A: 1 })
  assert.deepEqual(called(), ['a', 'b'])
  answer('a', { A: 1 })
  assert.deepEqual(called(), ['b'])
  answer('b', { O: 1 })
  answer('b', { O: 1 })
  assert.deepEqual(outcomes, ['CANCELLED ', 'O=1', 'O=1'])
  assert.equal(open.length, 0)
})

test('draining refuses new requests and resolves when the last step has ended; closing answers what is under way', async () => {
  const { scheduler, send, answer, outcomes } = schedulerUnderTest({ outputs: ['O'], steps: ['a I>O'] })
  send()
  let isDrained = false
  const drained = scheduler.drain().then(() => (isDrained = true))
  send({ id: 'late' })
  assert.match(outcomes[0] ?? '', /^UNAVAILABLE \[request id: late\] Server is stopping/)
  scheduler.close()
  assert.match(outcomes[1] ?? '', /^UNAVAILABLE Server is stopping/)
  await Promise.resolve()
  assert.equal(isDrained, false, 'the step still runs')
  answer('a', { O: 1 })
  await drained
})

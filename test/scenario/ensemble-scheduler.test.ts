// Ensembles of random shape under random answers, failures and cancellations. What comes out is compared with a plain
// evaluation of the graph. A failing run prints the seed that repeats it.

import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { ManualClock } from '../../src/base/clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import { EnsemblePlan } from '../../src/model/ensemble-plan.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { emptyModelConfig, type ModelConfig } from '../../src/model/model-config.ts'
import { ModelSignature } from '../../src/model/model-signature.ts'
import { EnsembleScheduler } from '../../src/scheduling/ensemble-scheduler.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

/** Step i reads tensors that exist before it and writes `T<i>`; a decoupled one gives two responses. */
type Shape = {
  readonly steps: readonly { readonly reads: readonly number[] }[]
  readonly decoupled: number
  readonly limit: number
}

const shape: fc.Arbitrary<Shape> = fc.record({
  steps: fc.array(fc.record({ reads: fc.array(fc.nat(20), { minLength: 1, maxLength: 3 }) }), {
    minLength: 1,
    maxLength: 7,
  }),
  /** At most one, so that no two orders meet. */
  decoupled: fc.integer({ min: -1, max: 6 }),
  limit: fc.integer({ min: 0, max: 2 }),
})
const actions = fc.array(fc.nat(1000), { minLength: 10, maxLength: 200, size: 'max' })
const outputNames = ({ steps }: Shape): string[] => steps.map((_, i) => `T${i}`)
/** The ensemble's input is tensor 0, the output of step i is tensor i + 1. */
const tensorName = (index: number): string => (index === 0 ? 'I' : `T${index - 1}`)
const readsOf = (reads: readonly number[], step: number): string[] => [
  ...new Set(reads.map((read) => tensorName(read % (step + 1)))),
]

function configOf(name: string, inputs: string[], outputs: string[], fields: Partial<ModelConfig> = {}): ModelConfig {
  const tensor = { dataType: 'TYPE_FP64', reshape: null, isShapeTensor: false, isNonLinearFormatIo: false } as const
  const input = { ...tensor, format: 'FORMAT_NONE', allowRaggedBatch: false, optional: false } as const
  return {
    ...emptyModelConfig(),
    name,
    input: inputs.map((each) => ({ ...input, dims: [1], name: each })),
    output: outputs.map((each) => ({ ...tensor, dims: [1], name: each, labelFilename: '' })),
    ...fields,
  }
}

const tensorOf = (name: string, value: number): Tensor =>
  new Tensor(name, 'FP64', [1], new Uint8Array(Float64Array.of(value).buffer))
const valueOf = ({ bytes }: Tensor): number => new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0, true)
/** What step `i` makes of the sum of its inputs; response `part` of a decoupled one. */
const computed = (step: number, sum: number, part: number): number => (sum * 3 + step * 7 + part) % 10_007

class Simulation {
  readonly scheduler: EnsembleScheduler
  readonly open: { readonly request: InferenceRequest; readonly step: number; sent: number }[] = []
  readonly requests: InferenceRequest[] = []
  readonly results = new Map<InferenceRequest, string[]>()
  readonly inflight = new Map<number, number>()
  heldCount = 0
  readonly #shape: Shape
  readonly #isDecoupled: boolean

  constructor(given: Shape) {
    this.#shape = given
    this.#isDecoupled = given.decoupled >= 0 && given.decoupled < given.steps.length
    const step = given.steps.map(({ reads }, i) => {
      const inputs = readsOf(reads, i)
      const same = (names: string[]): Map<string, string> => new Map(names.map((name) => [name, name]))
      return {
        modelName: `m${i}`,
        modelVersion: -1,
        inputMap: same(inputs),
        outputMap: same([`T${i}`]),
        modelNamespace: '',
      }
    })
    const ensembleScheduling = { step, maxInflightRequests: given.limit }
    const config = configOf('e', ['I'], outputNames(given), { platform: 'ensemble', ensembleScheduling })
    const signature = new ModelSignature(config)
    const plan = new EnsemblePlan(
      config,
      signature,
      ({ modelName, inputMap, outputMap }) =>
        configOf(modelName, [...inputMap.keys()], [...outputMap.keys()], {
          modelTransactionPolicy: { decoupled: modelName === `m${given.decoupled}` },
        }),
      { prunesLikeTriton: false },
    )
    const infer = (request: InferenceRequest): void => {
      const index = Number(request.modelName.slice(1))
      this.open.push({ request, step: index, sent: 0 })
      const count = (this.inflight.get(index) ?? 0) + 1
      this.inflight.set(index, count)
      assert.ok(given.limit === 0 || count <= given.limit, 'max_inflight_requests')
    }
    this.scheduler = new EnsembleScheduler({ clock: new ManualClock(), infer }, plan, signature)
  }

  send(value: number): void {
    const names = outputNames(this.#shape)
    const request = new InferenceRequest({
      modelName: 'e',
      inputs: [tensorOf('I', value % 100)],
      requestedOutputs: names.filter((_, i) => ((value >> i) & 1) === 1),
      sink: (response, ended) => {
        const seen = this.results.get(ended) ?? []
        this.results.set(ended, seen)
        assert.equal(seen.at(-1)?.startsWith('final') ?? false, false, 'nothing after the end')
        const text = response.error?.code ?? (response.isFlagOnly ? '' : this.#text(response))
        seen.push(`${response.isFinal ? 'final' : 'part'} ${text}`)
        response.release()
      },
    })
    this.requests.push(request)
    this.scheduler.enqueue(request)
  }

  /** One of the open requests of steps gets an answer. */
  answer(value: number, fails: boolean): void {
    const index = value % Math.max(1, this.open.length)
    const call = this.open[index]
    if (call === undefined) return
    const { request, step } = call
    const isDecoupled = step === this.#shape.decoupled
    const isLast = fails || !isDecoupled || call.sent === 2
    if (isLast) {
      this.open.splice(index, 1)
      this.inflight.set(step, (this.inflight.get(step) ?? 0) - 1)
    }
    if (fails) request.fail(new ServerError('INTERNAL', 'failed'))
    else if (isDecoupled && isLast) request.respond(InferenceResponse.finalFlag())
    else {
      const sum = request.inputs.reduce((total, tensor) => total + valueOf(tensor), 0)
      this.heldCount++
      const outputs = [tensorOf(`T${step}`, computed(step, sum, call.sent++))]
      request.respond(InferenceResponse.of(outputs, { isFinal: isLast, release: () => this.heldCount-- }))
    }
  }

  #text({ outputs }: InferenceResponse): string {
    return outputs.map((tensor) => `${tensor.name}=${valueOf(tensor)}`).join(' ')
  }

  /** The graph evaluated step by step, without any concurrency. */
  expected(request: InferenceRequest): string[] {
    const names = outputNames(this.#shape)
    const wanted =
      request.requestedOutputs.length === 0 ? names : names.filter((name) => request.requestedOutputs.includes(name))
    const parts = [0, 1].map((part) => {
      const values = new Map([['I', valueOf(request.inputs[0] as Tensor)]])
      const isFanned = new Set<string>()
      for (const [i, { reads }] of this.#shape.steps.entries()) {
        const inputs = readsOf(reads, i)
        const sum = inputs.reduce((total, name) => total + (values.get(name) ?? NaN), 0)
        values.set(`T${i}`, computed(i, sum, i === this.#shape.decoupled ? part : 0))
        if (i === this.#shape.decoupled || inputs.some((name) => isFanned.has(name))) isFanned.add(`T${i}`)
      }
      const text = wanted
        .toReversed()
        .map((name) => `${name}=${values.get(name)}`)
        .join(' ')
      return { text, isFanned: wanted.some((name) => isFanned.has(name)) }
    })
    const [first, second] = parts as [(typeof parts)[0], (typeof parts)[0]]
    return this.#isDecoupled && first.isFanned ? [first.text, second.text] : [first.text]
  }
}

test('whatever its shape and whenever its steps answer, an ensemble gives what its graph gives, once, and keeps no memory', async () => {
  await fc.assert(
    fc.asyncProperty(shape, actions, async (given, history) => {
      const simulation = new Simulation(given)
      for (const value of history) {
        if (value % 5 === 0) simulation.send(Math.floor(value / 5))
        else if (value % 41 === 0) simulation.requests.at(-1 - (value % 7))?.cancel()
        else simulation.answer(value, value % 37 === 0)
      }
      const drained = simulation.scheduler.drain()
      for (let round = 0; round < 20_000 && simulation.open.length > 0; round++) simulation.answer(round, false)
      await drained
      assert.equal(simulation.heldCount, 0, 'all memory is given back')
      for (const request of simulation.requests) {
        const seen = simulation.results.get(request) ?? []
        assert.match(seen.at(-1) ?? '', /^final/, 'every request ends')
        if (/CANCELLED|INTERNAL/.test(seen.at(-1) ?? '')) continue
        const texts = seen.map((text) => text.replace(/^(final|part) /, '')).filter((text) => text !== '')
        assert.deepEqual(texts, simulation.expected(request))
      }
    }),
    { numRuns: 400 },
  )
})

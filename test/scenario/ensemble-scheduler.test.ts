// Ensembles of random shape under random answers, failures, cancellations and drains. What comes out is compared with a
// plain evaluation of the graph.

import assert from 'node:assert/strict'
import { ManualClock } from '../fakes/manual-clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import { EnsemblePlan } from '../../src/config/ensemble-plan.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { emptyModelConfig, type ModelConfig } from '../../src/config/model-config.ts'
import { ModelSignature } from '../../src/config/model-signature.ts'
import { EnsembleScheduler } from '../../src/scheduling/ensemble-scheduler.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { testHistories, type Histories } from './histories.ts'

/** Step i reads tensors that exist before it and writes `T<i>`; a decoupled one gives two responses. */
type Shape = {
  readonly steps: readonly { readonly reads: readonly number[] }[]
  /** At most one, so that no two orders meet; -1 for none. */
  readonly decoupled: number
  /** max_inflight_requests */
  readonly limit: number
}
type Step = { readonly do: keyof typeof weights; readonly value: number }
const weights = { send: 4, answer: 14, fail: 1, cancel: 1, pause: 1, drain: 0 }

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
  endedCount = 0
  isDraining = false
  isDrained = false
  /** Steps by the id of the ensemble's request. */
  readonly #started = new Map<string, Set<number>>()
  readonly #finished = new Map<string, Set<number>>()
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
      { isLikeTriton: false },
    )
    const infer = (request: InferenceRequest): void => {
      const index = Number(request.modelName.slice(1))
      this.#checkStart(request, index)
      this.open.push({ request, step: index, sent: 0 })
      const count = (this.inflight.get(index) ?? 0) + 1
      this.inflight.set(index, count)
      assert.ok(given.limit === 0 || count <= given.limit, 'max_inflight_requests')
    }
    this.scheduler = new EnsembleScheduler({ clock: new ManualClock(), infer }, plan, signature)
  }

  run({ do: action, value }: Step): void {
    if (action === 'send') this.send(value)
    else if (action === 'answer' || action === 'fail') this.answer(value, action === 'fail')
    else if (action === 'cancel') this.requests.at(-1 - (value % 7))?.cancel()
    else if (action === 'pause') this.requests.at(-1 - (value % 7))?.setPaused(value % 2 === 0)
    else if (!this.isDraining) void this.drain()
  }

  async drain(): Promise<void> {
    this.isDraining = true
    await this.scheduler.drain()
    this.isDrained = true
    assert.equal(this.endedCount, this.requests.length, 'drained means that everything has ended')
  }

  /** After every step: what can run runs, and nothing is lost. */
  check(): void {
    for (const request of this.requests) {
      if (request.isEnded) continue
      const started = this.#started.get(request.id)
      assert.ok(this.open.some((call) => call.request.id === request.id) || this.#shape.limit > 0, 'it goes on')
      // Behind a gate a step may wait, and those after a decoupled one run once per response.
      if (this.#shape.limit > 0 || this.#isDecoupled || request.isCancelled) continue
      const finished = this.#finished.get(request.id)
      for (const step of this.#needed(request)) {
        const reads = readsOf(this.#shape.steps[step]?.reads ?? [], step)
        const isReady = reads.every((name) => name === 'I' || finished?.has(Number(name.slice(1))) === true)
        assert.equal(started?.has(step) ?? false, isReady, 'a step runs as soon as its inputs are there, and no sooner')
      }
    }
  }

  #checkStart(request: InferenceRequest, step: number): void {
    const owner = this.requests[Number(request.id)] as InferenceRequest
    assert.ok(this.#needed(owner).has(step), 'only what the requested outputs need runs')
    assert.ok(!owner.isEnded && !owner.isCancelled, 'no step starts for a request that is over')
    const started = this.#started.get(request.id) ?? new Set()
    this.#started.set(request.id, started)
    if (!this.#isDecoupled) assert.ok(!started.has(step), 'a step runs once')
    started.add(step)
  }

  #needed(request: InferenceRequest): ReadonlySet<number> {
    const wanted = request.requestedOutputs.length === 0 ? outputNames(this.#shape) : request.requestedOutputs
    const needed = new Set<number>()
    const open = [...wanted]
    for (let name = open.pop(); name !== undefined; name = open.pop()) {
      const step = Number(name.slice(1))
      if (name === 'I' || needed.has(step)) continue
      needed.add(step)
      open.push(...readsOf(this.#shape.steps[step]?.reads ?? [], step))
    }
    return needed
  }

  send(value: number): void {
    const names = outputNames(this.#shape)
    const request = new InferenceRequest({
      modelName: 'e',
      id: String(this.requests.length),
      inputs: [tensorOf('I', value % 100)],
      requestedOutputs: names.filter((_, i) => ((value >> i) & 1) === 1),
      sink: (response, ended) => {
        const seen = this.results.get(ended) ?? []
        this.results.set(ended, seen)
        assert.equal(seen.at(-1)?.startsWith('final') ?? false, false, 'nothing after the end')
        const text = response.error?.code ?? (response.isFlagOnly ? '' : this.#text(response))
        if (response.isFinal) this.endedCount++
        seen.push(`${response.isFinal ? 'final' : 'part'} ${text}`)
        response.release()
      },
    })
    this.requests.push(request)
    this.scheduler.enqueue(request)
    if (this.isDraining) assert.ok(request.isEnded, 'nothing is admitted after drain')
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
      if (isLast) this.#finished.set(request.id, (this.#finished.get(request.id) ?? new Set()).add(step))
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

const histories: Histories<Shape, Step> = {
  longest: 200,
  setup: (random) => ({
    steps: Array.from({ length: 1 + random.int(7) }, () => ({
      reads: Array.from({ length: 1 + random.int(3) }, () => random.int(20)),
    })),
    decoupled: random.int(12) - 5,
    limit: random.pick([0, 0, 1, 2]),
  }),
  step: (random) => ({ do: random.oneIn(300) ? 'drain' : random.weighted(weights), value: random.int(1000) }),
  live: async (shape, steps) => {
    const simulation = new Simulation(shape)
    for (const step of steps) {
      simulation.run(step)
      simulation.check()
    }
    const drained = simulation.isDraining ? Promise.resolve() : simulation.drain()
    for (let round = 0; simulation.open.length > 0; round++) {
      assert.ok(round < 20_000, 'everything admitted ends')
      simulation.answer(round, false)
    }
    await drained
    await Promise.resolve()
    assert.ok(simulation.isDrained, 'a drain ends with the last request')
    assert.equal(simulation.heldCount, 0, 'all memory is given back')
    for (const request of simulation.requests) {
      const seen = simulation.results.get(request) ?? []
      assert.match(seen.at(-1) ?? '', /^final/, 'every request ends')
      if (/CANCELLED|INTERNAL|UNAVAILABLE/.test(seen.at(-1) ?? '')) continue
      const texts = seen.map((text) => text.replace(/^(final|part) /, '')).filter((text) => text !== '')
      assert.deepEqual(texts, simulation.expected(request))
    }
  },
}

testHistories(
  'whatever its shape and whenever its steps answer, an ensemble gives what its graph gives',
  200_000,
  histories,
)

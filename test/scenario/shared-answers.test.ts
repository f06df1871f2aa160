// The response cache and `single_flight` in front of the direct scheduler and the dynamic batcher, in virtual time: each
// request ends once and gets the answer to what it asked, and the memory of each answer goes back once.

import assert from 'node:assert/strict'
import { ManualClock } from '../fakes/manual-clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import { LocalResponseCache } from '../../src/engine/cache/local-response-cache.ts'
import type { CachedAnswer } from '../../src/model/response-cache.ts'
import { ResponseCacheScheduler } from '../../src/scheduling/response-cache-scheduler.ts'
import { SingleFlightScheduler } from '../../src/scheduling/single-flight-scheduler.ts'
import type { Batch } from '../../src/model/batch.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import type { Scheduler } from '../../src/model/scheduler.ts'
import { DirectScheduler } from '../../src/scheduling/direct-scheduler.ts'
import { DynamicBatchScheduler } from '../../src/scheduling/dynamic-batch-scheduler.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { batchSettingsOf } from './batch-settings.ts'
import { testHistories, testIsFoundOut, type Histories } from './histories.ts'
import { SimulatedInstance } from './simulated-instance.ts'

type Setup = {
  readonly isBatching: boolean
  readonly isSingleFlight: boolean
  /** `far`: it promises its answers, and a step of the history keeps the promise. */
  readonly cache: 'none' | 'near' | 'far'
  readonly instanceCount: number
}
type Step = { readonly do: keyof typeof weights; readonly value: number }
const weights = { arrive: 14, finish: 8, fail: 1, look: 8, write: 5, cancel: 3, advance: 3, die: 1, flip: 1, stop: 0 }

const bound = 5
const keyCount = 4

class FarCache extends LocalResponseCache {
  readonly open: (() => void)[] = []

  override lookup(key: string): CachedAnswer | null {
    // What it knows is looked up when the question has got there.
    const promise = new Promise<CachedAnswer | null>((resolve) => {
      this.open.push(() => resolve(super.lookup(key)))
    })
    return promise as unknown as CachedAnswer
  }
}

type SchedulerWrapper = (clock: ManualClock, inner: Scheduler) => Scheduler
const realSingleFlight: SchedulerWrapper = (clock, inner) => new SingleFlightScheduler({ clock }, inner)

class Simulation {
  readonly clock = new ManualClock()
  readonly scheduler: Scheduler
  readonly instances: readonly SimulatedInstance[]
  readonly far = new FarCache(2000)
  readonly #setup: Setup
  readonly #turns: (() => void)[] = []
  readonly #requests: InferenceRequest[] = []
  readonly #contentOf = new Map<InferenceRequest, number>()
  readonly #arrivedNs = new Map<InferenceRequest, number>()
  readonly #running = new Set<InferenceRequest>()
  readonly #ended = new Set<InferenceRequest>()
  /** Answers that their clients have not written yet. */
  readonly #unwritten: InferenceResponse[] = []
  #madeCount = 0
  #releasedCount = 0
  isStopping = false
  isDrained = false

  constructor(setup: Setup, wrap: SchedulerWrapper) {
    this.#setup = setup
    const { clock } = this
    this.instances = Array.from(
      { length: setup.instanceCount },
      () => new SimulatedInstance((_, batch) => this.#onStart(batch)),
    )
    const afterThisTurn = (fire: () => void): void => void this.#turns.push(fire)
    const innermost = setup.isBatching
      ? new DynamicBatchScheduler({ clock, afterThisTurn }, this.instances, batchSettingsOf(bound))
      : new DirectScheduler({ clock }, this.instances, { maxQueueSize: bound })
    const shared = setup.isSingleFlight ? wrap(clock, innermost) : innermost
    const cache = setup.cache === 'far' ? this.far : new LocalResponseCache(2000)
    this.scheduler = setup.cache === 'none' ? shared : new ResponseCacheScheduler({ clock, cache }, shared, 'm ')
  }

  get openCount(): number {
    return this.#requests.length - this.#ended.size
  }

  run({ do: action, value }: Step): void {
    const instance = this.instances[value % this.instances.length] as SimulatedInstance
    if (action === 'arrive') this.#arrive(value)
    else if (action === 'finish') this.finish(instance)
    else if (action === 'fail') instance.end((request) => request.fail(failed))
    else if (action === 'look') this.far.open.splice(value % 3, 1).forEach((answer) => answer())
    else if (action === 'write') this.write(value)
    else if (action === 'cancel') {
      // Several at one time, as when a connection that carries them is lost.
      for (const request of this.#requests.slice(-1 - (value % 9)).slice(0, 1 + (value % 4))) request.cancel()
    } else if (action === 'advance') this.clock.advanceUs(value % 100)
    else if (action === 'die') {
      this.setReady(instance, false)
      instance.end((request) => request.fail(failed))
    } else if (action === 'flip') this.setReady(instance, !instance.isReady)
    else this.stop(value % 2 === 0)
  }

  finish(instance: SimulatedInstance): void {
    instance.end((request) => {
      const content = this.#contentOf.get(request) as number
      const outputs = [new Tensor('Y', 'UINT8', [1], Uint8Array.of(content))]
      this.#madeCount++
      let isReleased = false
      const release = (): void => {
        assert.ok(!isReleased, 'memory goes back once')
        isReleased = true
        this.#releasedCount++
      }
      request.respond(InferenceResponse.of(outputs, { release }))
    })
  }

  write(value: number): void {
    const [response] = this.#unwritten.splice(value % 5, 1)
    if (response === undefined) return
    response.release()
    response.release()
  }

  setReady(instance: SimulatedInstance, isReady: boolean): void {
    instance.isReady = isReady
    this.scheduler.instancesChanged()
  }

  stop(isClosing: boolean): void {
    if (!this.isStopping) {
      this.isStopping = true
      void this.scheduler.drain().then(() => {
        this.isDrained = true
        assert.equal(this.openCount, 0, 'drained means that everything has ended')
      })
    }
    if (!isClosing) return
    this.scheduler.close()
    for (const request of this.#requests) {
      assert.ok(request.isEnded || this.#running.has(request), 'what waits is given an answer at close')
    }
  }

  async turn(): Promise<void> {
    for (let i = 0; i < 6; i++) await Promise.resolve()
    for (let fire = this.#turns.shift(); fire !== undefined; fire = this.#turns.shift()) fire()
    for (let i = 0; i < 6; i++) await Promise.resolve()
  }

  check(): void {
    const waiting = this.#requests.filter((request) => !request.isEnded && !this.#running.has(request))
    assert.equal(this.scheduler.pendingCount, waiting.length, 'what waits is in a queue')
    const nowNs = this.clock.nowNs()
    for (const request of waiting) {
      const timeoutUs = this.#timeoutOf(this.#requests.indexOf(request))
      const waitedNs = nowNs - (this.#arrivedNs.get(request) as number)
      assert.ok(timeoutUs === 0 || waitedNs < timeoutUs * 1000, 'nobody outstays the time it gave itself')
    }
    if (!this.#setup.isSingleFlight) return
    const contents = [...this.#running].filter(({ isEnded }) => !isEnded).map((each) => this.#contentOf.get(each))
    assert.equal(new Set(contents).size, contents.length, 'what is asked twice at one time runs once')
  }

  checkEnd(): void {
    this.#unwritten.splice(0).forEach((response) => response.release())
    assert.equal(this.#releasedCount, this.#madeCount, 'all memory comes back')
    assert.equal(this.scheduler.pendingCount, 0)
    assert.equal(this.clock.pendingCount, 0, 'no timer is left behind')
    assert.ok(this.isDrained, 'a drain ends with the last request')
  }

  #timeoutOf(index: number): number {
    return index % 5 === 0 ? 20 + index : 0
  }

  #arrive(value: number): void {
    const content = value % keyCount
    const request = new InferenceRequest({
      modelName: 'm',
      id: String(this.#requests.length),
      inputs: [new Tensor('X', 'UINT8', [1], Uint8Array.of(content))],
      timeoutUs: BigInt(this.#timeoutOf(this.#requests.length)),
      sink: (response, ended) => this.#onEnd(response, ended),
    })
    request.batchSize = 1
    this.#contentOf.set(request, content)
    this.#arrivedNs.set(request, this.clock.nowNs())
    this.#requests.push(request)
    this.scheduler.enqueue(request)
    if (this.isStopping) assert.ok(request.isEnded, 'nothing is admitted after drain')
  }

  #onStart({ requests }: Batch): void {
    for (const request of requests) {
      assert.ok(!request.isEnded && !request.isCancelled, 'what has left never runs')
      this.#running.add(request)
    }
  }

  #onEnd(response: InferenceResponse, request: InferenceRequest): void {
    assert.ok(!this.#ended.has(request), 'a request ends once')
    this.#ended.add(request)
    this.#running.delete(request)
    if (response.error !== null) return
    assert.equal(response.outputs[0]?.bytes[0], this.#contentOf.get(request), 'the answer is to what was asked')
    this.#unwritten.push(response)
  }
}

const failed = ServerError.withoutStack('INTERNAL', 'failed')

const histories = (wrap: SchedulerWrapper = realSingleFlight): Histories<Setup, Step> => ({
  longest: 100,
  setup: (random) => ({
    isBatching: random.oneIn(2),
    isSingleFlight: !random.oneIn(3),
    cache: random.pick(['none', 'near', 'far'] as const),
    instanceCount: 1 + random.int(2),
  }),
  step: (random) => ({ do: random.oneIn(150) ? 'stop' : random.weighted(weights), value: random.int(1000) }),
  live: async (setup, steps) => {
    const simulation = new Simulation(setup, wrap)
    for (const step of steps) {
      simulation.run(step)
      // What a step begins may still be under way when the next one comes.
      if (step.value % 3 === 0) continue
      await simulation.turn()
      simulation.check()
    }
    simulation.stop(false)
    for (const instance of simulation.instances) simulation.setReady(instance, true)
    for (let round = 0; simulation.openCount > 0; round++) {
      assert.ok(round < 300, 'everything admitted ends')
      simulation.far.open.splice(0).forEach((answer) => answer())
      await simulation.turn()
      for (const instance of simulation.instances) simulation.finish(instance)
      await simulation.turn()
    }
    await simulation.turn()
    simulation.checkEnd()
  },
})

testHistories('requests that share an answer each end once, whatever happens', 60_000, histories())

/** All who wait are given what the first got, whatever it was. */
const passesAllOn: SchedulerWrapper = (clock, inner) => {
  const first = new Map<string, InferenceRequest>()
  return Object.assign(new SingleFlightScheduler({ clock }, inner), {
    enqueue(request: InferenceRequest): void {
      const key = String(request.inputs[0]?.bytes[0])
      const leader = first.get(key)
      if (leader === undefined || leader.isEnded) {
        first.set(key, request)
        inner.enqueue(request)
        return
      }
      leader.setStage('share', {
        pass: (response) => {
          request.respond(response)
          return response
        },
      })
    },
  })
}
testIsFoundOut('who waits is forgotten by cancellation, and memory has two owners', 500, histories(passesAllOn))

// Models that load, fail, take their time, are unloaded, deleted, scaled, put to sleep and woken, in every order, in
// virtual time: states move only as declared, every request has one outcome, and nothing is left behind.

import assert from 'node:assert/strict'
import { ManualClock } from '../fakes/manual-clock.ts'
import { MemoryLog } from '../fakes/memory-log.ts'
import { ServerError } from '../../src/base/server-error.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { Backend, Instance, LoadedModel } from '../../src/model/backend.ts'
import type { Batch } from '../../src/model/batch.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { emptyModelConfig } from '../../src/config/model-config.ts'
import type { PolledModel } from '../../src/repository/model-repository.ts'
import { parseModelConfigText } from '../../src/repository/text-format-reader.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { testHistories } from './histories.ts'

const weights = {
  write: 6,
  scale: 3,
  delete: 1,
  load: 8,
  follow: 3,
  unload: 3,
  send: 14,
  cancel: 1,
  answer: 12,
  advance: 8,
}
type Step = { readonly do: keyof typeof weights; readonly model: string; readonly value: number }
type Setup = {
  readonly memoryLimit: number
  readonly threads: number
  readonly isLazy: boolean
  readonly idleSecs: number
}

/** What lies in the repository under a name. Its content stands for the model's files. */
type Shelved = { content: number; instances: number; versions: string[]; loadMs: number; isBroken: boolean }

/** Allowed to follow each other in two looks at the index; steps in between may have passed unseen. */
const moves: Readonly<Record<string, readonly string[]>> = {
  '': ['LOADING', 'READY', 'UNAVAILABLE'],
  LOADING: ['READY', 'UNAVAILABLE', 'UNLOADING'],
  READY: ['UNLOADING', 'UNAVAILABLE', 'LOADING'],
  UNLOADING: ['UNAVAILABLE', 'LOADING', 'READY'],
  UNAVAILABLE: ['LOADING', 'READY', 'UNLOADING'],
}

/** Stricter than the contract of a backend, which lets an instance be closed twice: the engine closes each once. */
class StrictBackend implements Backend {
  readonly name = 'simulated'
  readonly held: { batch: Batch; content: number }[] = []
  readonly openModels = new Set<string>()
  openInstances = 0
  loadingCount = 0
  mostLoading = 0
  readonly #clock: ManualClock
  readonly #shelf: Map<string, Shelved>
  #serial = 0

  constructor(clock: ManualClock, shelf: Map<string, Shelved>) {
    this.#clock = clock
    this.#shelf = shelf
  }
  complete(draft: ReturnType<typeof emptyModelConfig>) {
    return Promise.resolve(draft)
  }
  async load({ name, version }: { name: string; version: string }): Promise<LoadedModel> {
    const files = this.#shelf.get(name)
    // The files may go while they are being read.
    if (files === undefined) throw new ServerError('INTERNAL', 'file not found')
    const { content, loadMs, isBroken } = files
    this.loadingCount++
    this.mostLoading = Math.max(this.mostLoading, this.loadingCount)
    await new Promise<void>((resolve) => void this.#clock.after(loadMs * 1e6, resolve))
    this.loadingCount--
    if (isBroken || !this.#shelf.has(name)) throw new ServerError('INVALID_ARG', 'no such weights')
    const key = `${name}/${version}#${this.#serial++}`
    this.openModels.add(key)
    let ownInstances = 0
    return {
      createInstance: (spec): Promise<Instance> => {
        this.openInstances++
        ownInstances++
        let isOpen = true
        return Promise.resolve({
          name: spec.name,
          isReady: true,
          execute: (batch: Batch) => {
            assert.ok(isOpen, 'no batch is given to an instance that is closed')
            this.held.push({ batch, content })
          },
          close: () => {
            assert.ok(isOpen, 'an instance is closed once')
            isOpen = false
            this.openInstances--
            ownInstances--
            return Promise.resolve()
          },
        })
      },
      close: () => {
        assert.equal(ownInstances, 0, 'a model is closed after its instances')
        this.openModels.delete(key)
        return Promise.resolve()
      },
    }
  }
  close(): Promise<void> {
    return Promise.resolve()
  }
}

class Simulation {
  readonly #setup: Setup
  readonly #clock = new ManualClock()
  readonly #shelf = new Map<string, Shelved>()
  readonly #backend = new StrictBackend(this.#clock, this.#shelf)
  readonly #engine: Engine
  readonly #states = new Map<string, string>()
  readonly #open = new Set<InferenceRequest>()
  readonly #contentsSent = new Map<InferenceRequest, ReadonlySet<number>>()
  /** Contents that a model may answer with: what ever served under the name. */
  readonly #contents = new Map<string, Set<number>>()
  #calls: Promise<unknown>[] = []
  #sent = 0
  #ended = 0

  constructor(setup: Setup) {
    this.#setup = setup
    for (const name of ['a', 'b', 'c']) this.#write(name, { content: 0 })
    this.#engine = new Engine(
      {
        clock: this.#clock,
        log: new MemoryLog(),
        repository: {
          poll: () => Promise.resolve([...this.#shelf.keys()].map((name) => this.#polled(name) as PolledModel)),
          pollOne: (name) => Promise.resolve(this.#polled(name)),
          pollDirectory: (name) => Promise.resolve(this.#polled(name) as PolledModel),
          names: () => Promise.resolve([...this.#shelf.keys()].sort()),
        },
        findBackend: () => Promise.resolve(this.#backend),
        closeBackends: () => Promise.resolve(),
      },
      {
        id: 'simulated',
        reportedVersion: '0',
        isStrictReadiness: true,
        isModelControlExplicit: true,
        loadModels: ['*'],
        modelLoadThreadCount: setup.threads,
        modelLoadRetryCount: 0,
        isAutoCompleteDisabled: false,
        gpuCount: 0,
        defaultMaxQueueSize: 8,
        modelMemoryLimitBytes: setup.memoryLimit,
        isModelLoadLazy: setup.isLazy,
        modelIdleUnloadSecs: setup.idleSecs,
      },
    )
  }

  async live(steps: readonly Step[]): Promise<void> {
    const started = this.#engine.start()
    await this.#settle(started)
    for (const step of steps) {
      this.#act(step)
      await this.#turn()
      this.#check()
    }
    await this.#end()
  }

  #act({ do: what, model, value }: Step): void {
    switch (what) {
      case 'write':
        return this.#write(model, {
          content: value,
          loadMs: value % 7 === 0 ? 5000 : value % 3,
          isBroken: value % 5 === 0,
          versions: value % 4 === 0 ? ['1', '2'] : [String(1 + (value % 2))],
        })
      case 'scale':
        return this.#write(model, { instances: 1 + (value % 3) })
      case 'delete':
        return void this.#shelf.delete(model)
      case 'load':
        return this.#call(this.#engine.load(model))
      case 'follow':
        return this.#call(this.#engine.follow(model))
      case 'unload':
        return this.#call(this.#engine.unload(model).then(({ gone }) => gone))
      case 'send':
        return this.#send(model)
      case 'cancel':
        return [...this.#open][value % Math.max(1, this.#open.size)]?.cancel()
      case 'answer':
        return this.#answer(value % 4)
      case 'advance':
        return this.#clock.advanceMs([1, 50, 3000, 20_000][value % 4] as number)
    }
  }

  #write(name: string, change: Partial<Shelved>): void {
    const before = this.#shelf.get(name) ?? { content: 0, instances: 1, versions: ['1'], loadMs: 1, isBroken: false }
    const after = { ...before, ...change }
    this.#shelf.set(name, after)
    const contents = this.#contents.get(name) ?? new Set<number>()
    this.#contents.set(name, contents.add(after.content))
  }

  #polled(name: string): PolledModel | null {
    const files = this.#shelf.get(name)
    if (files === undefined) return null
    const { config } = parseModelConfigText(`
      name: "${name}" backend: "simulated" version_policy { all {} }
      input { name: "IN" data_type: TYPE_INT32 dims: 1 }
      output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
      instance_group { name: "${name}" kind: KIND_CPU count: ${files.instances} }
      parameters { key: "memory_bytes" value { string_value: "10" } }
    `)
    const { versions, content, instances } = files
    return {
      name,
      error: null,
      config: { ...emptyModelConfig(), ...config },
      versions,
      hints: [],
      fingerprint: `${content}/${instances}/${versions.join()}`,
      partFingerprints: new Map(['', ...versions].map((part) => [part, String(content)])),
      modelDirectory: `/models/${name}`,
      repositoryPath: '/models',
    }
  }

  /** Loads and unloads may fail; the reason is part of the game. */
  #call(call: Promise<unknown>): void {
    this.#calls.push(call.catch((reason: unknown) => assert.ok(reason instanceof ServerError, String(reason))))
  }

  #send(model: string): void {
    let version
    try {
      version = this.#engine.findVersion(model, '')
    } catch (reason) {
      assert.match((reason as Error).message, /^Request for unknown model: /)
      return
    }
    this.#sent++
    const request: InferenceRequest = new InferenceRequest({
      modelName: model,
      inputs: [new Tensor('IN', 'INT32', [1], new Uint8Array(4))],
      sink: ({ error, outputs, isFinal }) => {
        assert.ok(isFinal && this.#open.delete(request), 'a request ends once')
        this.#ended++
        if (error !== null) {
          assert.match(error.message, allowedErrors)
          return
        }
        const content = new Int32Array((outputs[0] as Tensor).bytes.slice().buffer)[0] as number
        assert.ok(this.#contentsSent.get(request)?.has(content), 'an answer comes from files that were once there')
      },
    })
    this.#open.add(request)
    this.#contentsSent.set(request, this.#contents.get(model) ?? new Set())
    this.#engine.infer(request, version)
  }

  #answer(count: number): void {
    for (const { batch, content } of this.#backend.held.splice(0, count + 1)) {
      const data = new Uint8Array(new Int32Array([content]).buffer)
      for (const request of batch.requests) {
        request.respond(InferenceResponse.of([new Tensor('OUT', 'INT32', [1], data)]))
      }
      batch.executed()
    }
  }

  #check(): void {
    assert.equal(this.#sent, this.#ended + this.#open.size, 'every request has ended or is open')
    assert.ok(this.#backend.mostLoading <= this.#setup.threads * 2, 'no more models load at a time than threads')
    for (const { name, version, state } of this.#engine.index()) {
      const key = `${name}/${version}`
      const before = this.#states.get(key) ?? ''
      assert.ok(before === state || moves[before]?.includes(state), `${key} went from ${before} to ${state}`)
      this.#states.set(key, state)
    }
    const { memoryLimit } = this.#setup
    if (memoryLimit === 0) return
    const used = [...this.#engine.residences()].reduce((sum, { memoryBytes }) => sum + memoryBytes, 0)
    assert.ok(used <= memoryLimit, `models take ${used} of ${memoryLimit}`)
  }

  async #end(): Promise<void> {
    for (const name of this.#shelf.keys()) this.#write(name, { isBroken: false, loadMs: 1 })
    await this.#settle(Promise.all(this.#calls))
    // Whatever happened before, a sound model can be loaded and serves.
    const [name] = this.#shelf.keys()
    if (name !== undefined && this.#setup.memoryLimit === 0) {
      await this.#settle(this.#engine.load(name))
      assert.equal(this.#engine.isModelReady(name, ''), true)
    }
    await this.#settle(this.#engine.close(1000))
    assert.equal(this.#open.size, 0, 'no request is left without an answer')
    assert.equal(this.#backend.openInstances, 0, 'every instance is closed')
    assert.equal(this.#backend.openModels.size, 0, 'every model is freed')
  }

  /** Time passes and batches are answered until it is done. */
  async #settle(done: Promise<unknown>): Promise<void> {
    const end = { isThere: false }
    const ended = done.finally(() => void (end.isThere = true))
    for (let turns = 0; !end.isThere; turns++) {
      assert.ok(turns < 10_000, 'what was begun comes to an end')
      await this.#turn()
      this.#answer(100)
      this.#clock.advanceMs(20)
    }
    await ended
  }

  /** All that follows from what has happened happens; time stands still. */
  async #turn(): Promise<void> {
    for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
  }
}

const allowedErrors =
  /^$|Exceeds maximum queue size|has stopped accepting|could not be loaded for this request|was unloaded|has changed|Request for unknown model|Server exiting/

testHistories('versions of models move only as declared, and every request has one outcome', 6000, {
  setup: (random): Setup => ({
    memoryLimit: random.pick([0, 0, 20, 30]),
    threads: random.pick([1, 2, 4]),
    isLazy: random.oneIn(2),
    idleSecs: random.pick([0, 0, 10]),
  }),
  step: (random): Step => ({
    do: random.weighted(weights),
    model: random.pick(['a', 'b', 'c']),
    value: random.int(1000),
  }),
  longest: 60,
  live: (setup, steps) => new Simulation(setup).live(steps),
})

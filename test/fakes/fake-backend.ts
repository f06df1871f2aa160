import type { Clock } from '../../src/base/clock.ts'
import { SystemClock } from '../../src/base/clock.ts'
import { ServerError, type ErrorCode } from '../../src/base/server-error.ts'
import type { ModelConfig } from '../../src/config/model-config.ts'
import type { Backend, InstanceSpec, LoadedModel, ModelVersionSource } from '../../src/model/backend.ts'
import type { Batch } from '../../src/model/batch.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { answerWithCopy, HeldInstance } from './held-instance.ts'

/** A backend for tests of the engine and of front ends: loads when it is let, answers at once or when it is told to. */
export class FakeBackend implements Backend {
  readonly name: string
  readonly clock: Clock
  /** What a request gets. */
  answer: (request: InferenceRequest) => void = answerWithCopy
  /** Whether batches wait for `answerAll`. */
  isHolding = true
  /** Set: loads wait until these are called. */
  gates: (() => void)[] | null = null
  /** Models, or versions as `name/version`, that do not load. */
  readonly failing = new Set<string>()
  failureCode: ErrorCode = 'INVALID_ARG'
  loadCount = 0
  /** What `read` made of each model that was loaded, in order. */
  readonly loaded: string[] = []
  /** `name/version#load:index` of those that are not closed. */
  readonly instances = new Set<string>()
  /** `name/version` of each batch, in order. */
  readonly executed: string[] = []
  /** Batches that wait, in the order in which they came. */
  readonly held: { readonly batch: Batch; readonly owner: string; readonly instance: HeldInstance }[] = []
  isClosed = false
  readonly #open = new Map<HeldInstance, InstanceSpec>()
  #areReady = true

  constructor(name: string, clock: Clock = new SystemClock()) {
    this.name = name
    this.clock = clock
  }

  complete(draft: ModelConfig): Promise<ModelConfig> {
    return Promise.resolve(draft)
  }

  async load(source: ModelVersionSource): Promise<LoadedModel> {
    const { name, version } = source
    const owner = `${name}/${version}#${++this.loadCount}`
    const { gates } = this
    if (gates !== null) await new Promise<void>((resolve) => gates.push(resolve))
    if (this.failing.has(name) || this.failing.has(`${name}/${version}`))
      throw new ServerError(this.failureCode, 'no such weights')
    this.loaded.push(await this.read(source))
    return {
      createInstance: (spec) => Promise.resolve(this.#createInstance(spec, owner)),
      close: () => Promise.resolve(),
    }
  }

  /** Called by each load before it goes on: may wait, and may throw. */
  read({ name }: ModelVersionSource): string | Promise<string> {
    return name
  }

  close(): Promise<void> {
    this.isClosed = true
    return Promise.resolve()
  }

  set areInstancesReady(areReady: boolean) {
    this.#areReady = areReady
    for (const [instance, spec] of this.#open) {
      instance.isReady = areReady
      spec.onReadinessChange()
    }
  }

  loseInstances(): void {
    for (const instance of this.#open.keys()) instance.isLost = true
  }

  /** Who executed them. */
  answerAll(): string[] {
    return this.held.splice(0).map(({ instance, owner }) => {
      instance.finish()
      return owner
    })
  }

  #createInstance(spec: InstanceSpec, owner: string): HeldInstance {
    const key = `${owner}:${spec.index}`
    const instance = new HeldInstance(spec.name)
    instance.clock = this.clock
    instance.isReady = this.#areReady
    instance.answer = (request) => this.answer(request)
    const execute = instance.execute.bind(instance)
    instance.execute = (batch) => {
      this.executed.push(owner.replace(/#.*/, ''))
      instance.isHolding = this.isHolding
      if (this.isHolding) this.held.push({ batch, owner, instance })
      execute(batch)
    }
    instance.close = () => {
      this.#open.delete(instance)
      this.instances.delete(key)
      return Promise.resolve()
    }
    this.#open.set(instance, spec)
    this.instances.add(key)
    return instance
  }
}

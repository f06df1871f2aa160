import assert from 'node:assert/strict'
import type { Batch } from '../../src/model/batch.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { HeldInstance } from '../fakes/held-instance.ts'

type OnStart<Self> = (instance: Self, batch: Batch) => void

/** Executes until the history says that it is done. */
export class SimulatedInstance extends HeldInstance {
  /** Taken away, and free as the scheduler said: from then on it may be closed at any moment. */
  hasLeft = false
  readonly #onStart: OnStart<SimulatedInstance>

  constructor(onStart: OnStart<SimulatedInstance>) {
    super('simulated')
    this.#onStart = onStart
  }

  override execute(batch: Batch): void {
    assert.ok(this.isReady, 'only a ready instance is given work')
    assert.ok(!this.hasLeft, 'one that has left is given nothing')
    super.execute(batch)
    this.#onStart(this, batch)
  }

  /** The first execution is over: each of its requests ends as `end` says. */
  end(end: (request: InferenceRequest) => void): void {
    if (this.batch === null) return
    this.answer = end
    this.finish()
  }
}

/** The instances after a change of their number: some of `used` stay, as the bits of `value` say, and some are new. */
export function rescaled<T>(used: readonly T[], value: number, make: () => T): T[] {
  const staying = used.filter((_, i) => ((value >> i) & 1) === 1)
  const missing = Math.max(0, 1 + ((value >> 4) % 3) - staying.length)
  return [...staying, ...Array.from({ length: missing }, make)]
}

type Leaving = { readonly isBusy: boolean; hasLeft: boolean }

/** Instances that were taken away: they have left when they are done, neither sooner nor later. */
export class Departures {
  readonly #groups = new Set<{ readonly leaving: readonly Leaving[] }>()

  /** `left` is what setInstances has promised. */
  watch(leaving: readonly Leaving[], left: Promise<void> | undefined): void {
    if (leaving.length === 0) return
    const group = { leaving }
    this.#groups.add(group)
    void left?.then(() => {
      this.#groups.delete(group)
      for (const instance of leaving) {
        assert.ok(!instance.isBusy, 'one that has left executes nothing')
        instance.hasLeft = true
      }
    })
  }

  /** Whether somebody is on the way: promises are only kept while somebody awaits them. */
  get isAwaited(): boolean {
    return this.#groups.size > 0
  }

  /** Lets what is promised come true. */
  async turn(): Promise<void> {
    for (let i = 0; i < 4; i++) await Promise.resolve()
  }

  async check(): Promise<void> {
    await this.turn()
    for (const { leaving } of this.#groups)
      assert.ok(
        leaving.some(({ isBusy }) => isBusy),
        'who is done has left',
      )
  }
}

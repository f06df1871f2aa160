import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { Instance } from '../model/backend.ts'

/** An Instance, and the model version that it belongs to. */
export type WatchedInstance = { readonly model: string; readonly version: string; readonly instance: Instance }

const beatsPerTimeout = 4
const mostBetweenBeatsMs = 1000

/**
 * `--live-check=compute`: every Instance's Worker is sent a word now and again. One that shows no sign of life for longer than the
 * timeout hangs, and a server with such a Worker does not call itself alive. Asking for the answer costs nothing.
 */
export class LiveCheck {
  readonly #clock: Clock
  readonly #log: Log
  readonly #instances: () => Iterable<WatchedInstance>
  readonly #timeoutNs: number
  readonly #seenNs = new WeakMap<Instance, number>()
  #hung: readonly WatchedInstance[] = []
  #cancel: Cancel | null = null

  constructor(
    dependencies: {
      readonly clock: Clock
      readonly log: Log
      readonly instances: () => Iterable<WatchedInstance>
    },
    timeoutSecs: number,
  ) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('live-check.ts')
    this.#instances = dependencies.instances
    this.#timeoutNs = timeoutSecs * 1e9
  }

  get hung(): readonly WatchedInstance[] {
    return this.#hung
  }

  start(): void {
    const betweenNs = Math.min(this.#timeoutNs / beatsPerTimeout, mostBetweenBeatsMs * 1e6)
    this.#cancel = this.#clock.after(betweenNs, () => {
      void this.beat().then(() => {
        if (this.#cancel !== null) this.start()
      })
    })
  }

  close(): void {
    this.#cancel?.()
    this.#cancel = null
  }

  /** Asks every Instance once. */
  async beat(): Promise<void> {
    const watched = [...this.#instances()]
    const pulses = await Promise.all(watched.map(async ({ instance }) => (await instance.pulse?.()) ?? true))
    const nowNs = this.#clock.nowNs()
    const hung = watched.filter(({ instance }, i) => {
      if (pulses[i] === true || !this.#seenNs.has(instance)) this.#seenNs.set(instance, nowNs)
      return nowNs - (this.#seenNs.get(instance) ?? nowNs) > this.#timeoutNs
    })
    this.#tell(hung)
    this.#hung = hung
  }

  #tell(hung: readonly WatchedInstance[]): void {
    const before = new Set(this.#hung.map(({ instance }) => instance))
    const now = new Set(hung.map(({ instance }) => instance))
    for (const { model, version, instance } of hung) {
      if (before.has(instance)) continue
      this.#log.error('worker hangs: it shows no sign of life', { model, version, instance: instance.name })
    }
    for (const { model, version, instance } of this.#hung) {
      if (!now.has(instance)) this.#log.info('worker is alive again', { model, version, instance: instance.name })
    }
  }
}

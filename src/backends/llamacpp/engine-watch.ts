import type { Cancel, Clock } from '../../base/clock.ts'

/** How often the engine is asked for a sign of life while it has requests. */
const betweenLooksMs = 2000
/** The engine's own thread plans steps and follows grammars, and answers in between. So much time of the processor is never needed. */
const hungAfterMs = 10_000

type WatchedEngine = {
  /** `answered` follows when the engine's thread is free. */
  ask(): void
  /** The time of the processor that the engine's thread has used; null where the system does not tell. */
  threadMs(): Promise<number | null>
  hangs(): void
}

/** Sees an engine whose thread computes for ever, which one hostile grammar is enough for. Time of the processor counts, so a busy machine is no reason. */
export class EngineWatch {
  readonly #clock: Clock
  readonly #engine: WatchedEngine
  #cancel: Cancel | null = null
  #isAnswered = true
  #askedAtMs = 0

  constructor(clock: Clock, engine: WatchedEngine) {
    this.#clock = clock
    this.#engine = engine
  }

  answered(): void {
    this.#isAnswered = true
  }

  /** Looks now and then until `stop`. */
  start(): void {
    if (this.#cancel !== null) return
    const cancel = this.#clock.after(betweenLooksMs * 1e6, () => {
      const isOn = (): boolean => this.#cancel === cancel
      void this.#look(isOn).then(() => {
        if (!isOn()) return
        this.#cancel = null
        this.start()
      })
    })
    this.#cancel = cancel
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = null
  }

  async #look(isOn: () => boolean): Promise<void> {
    const usedMs = await this.#engine.threadMs()
    if (!isOn() || usedMs === null) return
    if (this.#isAnswered) {
      this.#isAnswered = false
      this.#askedAtMs = usedMs
      this.#engine.ask()
    } else if (usedMs - this.#askedAtMs > hungAfterMs) {
      this.stop()
      this.#engine.hangs()
    }
  }
}

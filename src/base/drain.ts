/**
 * Refuses new work, lets the old work finish, and says when the last of it has ended. The owner says what "nothing is
 * under way" means, and calls `check` after each thing that has ended.
 */
export class Drain {
  readonly #isIdle: () => boolean
  /** Null while nobody waits, which is nearly always. */
  #waiters: (() => void)[] | null = null
  #isRefusing = false

  constructor(isIdle: () => boolean) {
    this.#isIdle = isIdle
  }

  /** True when the owner takes no new work any more. */
  get isRefusing(): boolean {
    return this.#isRefusing
  }

  refuse(): void {
    this.#isRefusing = true
  }

  /** Refuses new work from now on. Resolves when the old work has ended. */
  drained(): Promise<void> {
    this.refuse()
    return this.idle()
  }

  /** Resolves the next time nothing is under way. New work is still taken. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters ??= []
      this.#waiters.push(resolve)
      this.check()
    })
  }

  /** HOT: once or more per request. Costs one comparison while nobody waits. */
  check(): void {
    if (this.#waiters === null || !this.#isIdle()) return
    const waiters = this.#waiters
    this.#waiters = null
    for (const tell of waiters) tell()
  }
}

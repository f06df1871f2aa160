/** One state with several users: the first makes it, the others wait for it, the last one ends it. */
export class SharedState {
  #made: Promise<unknown> | null = null
  #users = 0

  /** `make` runs only for the first user. When it fails, nobody has become a user, and the next one tries again. */
  async enter(make: () => unknown): Promise<unknown> {
    const made = (this.#made ??= Promise.try(make))
    this.#users++
    try {
      return await made
    } catch (reason) {
      this.#users--
      if (this.#made === made) this.#made = null
      throw reason
    }
  }

  /** `end` runs only for the last user. */
  async leave(end: () => unknown): Promise<void> {
    if (--this.#users > 0) return
    this.#made = null
    await end()
  }
}

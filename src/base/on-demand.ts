/** What is opened when somebody first needs it. Who comes later shares it. After a failure the next one who needs it tries again. */
export class OnDemand<T> {
  readonly #open: () => Promise<T>
  #opening: Promise<T> | null = null

  constructor(open: () => Promise<T>) {
    this.#open = open
  }

  get(): Promise<T> {
    this.#opening ??= this.#open().catch((reason: unknown) => {
      this.#opening = null
      throw reason
    })
    return this.#opening
  }

  /** Null: nobody needed it, or it could not be opened. Opens nothing. */
  async opened(): Promise<T | null> {
    return (await this.#opening?.catch(() => null)) ?? null
  }
}

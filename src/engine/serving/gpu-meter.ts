// What the load of a model takes of GPUs: the difference of what is free before and after.

/** Free bytes of a GPU; null where nobody can tell. */
export type AskFree = (deviceId: number) => Promise<number | null>

type Measured<T> = {
  readonly value: T
  /** By GPU; null: another load was under way at the same time, or nobody could tell. */
  readonly bytes: ReadonlyMap<number, number> | null
}

export class GpuMeter {
  readonly #ask: AskFree
  readonly #isSerial: boolean
  #underWay = 0
  #begun = 0
  #last: Promise<unknown> = Promise.resolve()

  /** `isSerial`: loads on GPUs wait for each other, because somebody counts on the figures. */
  constructor(ask: AskFree, isSerial: boolean) {
    this.#ask = ask
    this.#isSerial = isSerial
  }

  async measure<T>(devices: readonly number[], load: () => Promise<T>): Promise<Measured<T>> {
    if (devices.length === 0) return { value: await load(), bytes: null }
    if (!this.#isSerial) return this.#read(devices, load)
    const measured = this.#last.then(() => this.#read(devices, load))
    this.#last = measured.catch(() => undefined)
    return measured
  }

  async #read<T>(devices: readonly number[], load: () => Promise<T>): Promise<Measured<T>> {
    const wasAlone = this.#underWay++ === 0
    const number = ++this.#begun
    try {
      const first = await this.#askAll(devices)
      const value = await load()
      const isAlone = wasAlone && this.#begun === number
      return { value, bytes: isAlone ? differences(first, await this.#askAll(devices)) : null }
    } finally {
      this.#underWay--
    }
  }

  async #askAll(devices: readonly number[]): Promise<ReadonlyMap<number, number | null>> {
    return new Map(await Promise.all(devices.map(async (device) => [device, await this.#ask(device)] as const)))
  }
}

function differences(
  first: ReadonlyMap<number, number | null>,
  last: ReadonlyMap<number, number | null>,
): ReadonlyMap<number, number> | null {
  const taken = new Map<number, number>()
  for (const [device, before] of first) {
    const after = last.get(device) ?? null
    if (before !== null && after !== null && before > after) taken.set(device, before - after)
  }
  return taken.size === 0 ? null : taken
}

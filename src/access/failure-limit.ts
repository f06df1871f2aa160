import { Gcra } from './gcra.ts'

/** Wrong credentials of one address in a minute. */
const mostFailures = 20
/** At so many addresses the one that failed first is forgotten. */
const mostAddresses = 10_000

/** Counts calls with wrong credentials by the address that they come from. */
export class FailureLimit {
  readonly #byAddress = new Map<string, Gcra>()

  isOver(address: string, nowNs: number): boolean {
    return (this.#byAddress.get(address)?.waitNs(nowNs, 1) ?? 0) > 0
  }

  /** How long until the address may try again. */
  waitNs(address: string, nowNs: number): number {
    return this.#byAddress.get(address)?.waitNs(nowNs, 1) ?? 0
  }

  note(address: string, nowNs: number): void {
    let failures = this.#byAddress.get(address)
    if (failures === undefined) {
      if (this.#byAddress.size >= mostAddresses) this.#byAddress.delete(this.#byAddress.keys().next().value as string)
      failures = new Gcra(mostFailures, 60e9, mostFailures)
      this.#byAddress.set(address, failures)
    }
    failures.take(nowNs, 1)
  }
}

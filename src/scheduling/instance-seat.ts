import type { Instance } from '../model/backend.ts'

/** Whether it can be given work now. Asked by those who have some: one that shares with others stands in line. */
export function canBegin(instance: Instance): boolean {
  if (instance.isReady) return instance.claim === undefined || instance.claim()
  instance.withdraw?.()
  return false
}

/** An Instance and what a scheduler has given it. */
export class InstanceSeat {
  readonly instance: Instance
  /** Batches that it has and has not executed. */
  runningCount = 0
  /** Set on one that was taken away: called when it has executed the last one. */
  #onLeft: (() => void) | null = null

  constructor(instance: Instance) {
    this.instance = instance
  }

  get isLeaving(): boolean {
    return this.#onLeft !== null
  }

  begin(): void {
    this.runningCount++
  }

  /** True when it can be given the next batch. */
  end(): boolean {
    this.runningCount--
    if (this.runningCount > 0) return false
    const onLeft = this.#onLeft
    if (onLeft === null) return true
    onLeft()
    return false
  }

  /** Resolves when it executes nothing. */
  leave(): Promise<void> {
    this.instance.withdraw?.()
    return new Promise((resolve) => {
      this.#onLeft = resolve
      if (this.runningCount === 0) resolve()
    })
  }
}

/** Those that stand in line for something until they are told that it is not needed. */
export const claimantsOf = (seats: readonly InstanceSeat[]): readonly Instance[] =>
  seats.map(({ instance }) => instance).filter((instance) => instance.withdraw !== undefined)

/** The seats of these Instances, those that stay as they were, and the end of those that go. */
export function reseat(
  seats: readonly InstanceSeat[],
  instances: readonly Instance[],
): { readonly seats: InstanceSeat[]; readonly left: Promise<void> } {
  const known = new Map(seats.map((seat) => [seat.instance, seat]))
  const next = instances.map((instance) => known.get(instance) ?? new InstanceSeat(instance))
  const leaving = seats.filter((seat) => !next.includes(seat)).map((seat) => seat.leave())
  return { seats: next, left: Promise.all(leaving).then(() => undefined) }
}

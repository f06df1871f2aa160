import type { Instance } from '../model/backend.ts'

/** Whether an Instance can take work now. Ask only when there is work: an Instance that may not run waits in line. */
export function canBegin(instance: Instance): boolean {
  if (instance.isReady) return instance.claim === undefined || instance.claim()
  instance.withdraw?.()
  return false
}

/** An Instance, and how many batches a scheduler has given it. */
export class InstanceSeat {
  readonly instance: Instance
  /** Batches that the Instance has and has not executed. */
  runningCount = 0
  /** Set when the Instance is taken away: called after its last batch. */
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

  /** A batch was executed. True: the Instance is idle and may get the next batch. */
  end(): boolean {
    this.runningCount--
    if (this.runningCount > 0) return false
    const onLeft = this.#onLeft
    if (onLeft === null) return true
    onLeft()
    return false
  }

  /** Resolves when the Instance has no batch. */
  leave(): Promise<void> {
    this.instance.withdraw?.()
    return new Promise((resolve) => {
      this.#onLeft = resolve
      if (this.runningCount === 0) resolve()
    })
  }
}

/** The Instances that wait in line for shared resources until `withdraw` is called. */
export const claimantsOf = (seats: readonly InstanceSeat[]): readonly Instance[] =>
  seats.map(({ instance }) => instance).filter((instance) => instance.withdraw !== undefined)

/** The seats of these Instances; Instances that stay keep their seat. `left` resolves when the others have ended. */
export function reseat(
  seats: readonly InstanceSeat[],
  instances: readonly Instance[],
): { readonly seats: InstanceSeat[]; readonly left: Promise<void> } {
  const known = new Map(seats.map((seat) => [seat.instance, seat]))
  const next = instances.map((instance) => known.get(instance) ?? new InstanceSeat(instance))
  const leaving = seats.filter((seat) => !next.includes(seat)).map((seat) => seat.leave())
  return { seats: next, left: Promise.all(leaving).then(() => undefined) }
}

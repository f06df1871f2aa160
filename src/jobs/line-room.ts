/** How busy the model of a job is, with the lines of the job among its requests. */
export type ModelLoad = {
  readonly pendingCount: number
  readonly inFlightCount: number
  readonly instanceCount: number
  /** Rows that one execution takes. */
  readonly batchSize: number
  /** The part of `galatea_pressure` that is not of lines of jobs; null where the model has no pressure, as an ensemble. */
  readonly pressure: number | null
  /** Whether somebody else asked the model within the window of the pressure. */
  readonly hasClients: boolean
}

/** Below this pressure hardly any client finds all instances busy. So one that does, because of lines, shows in the p99: more instances stay free. */
const quietPressure = 0.35

/**
 * How many lines may begin, with so many lines of the job under way. While clients use the model, lines leave instances free for the next clients:
 * a line that has begun cannot be put aside, so a client that finds every instance busy waits for one of them. Without clients a job takes everything.
 */
export function lineRoom(load: ModelLoad | null, ownCount: number, below: number): number {
  if (load === null) return ownCount === 0 ? 1 : 0
  const { pendingCount, instanceCount, batchSize, pressure } = load
  const others = Math.max(0, load.inFlightCount - ownCount)
  // A request of a client waits.
  if (pendingCount > ownCount) return 0
  if (!load.hasClients && others === 0) return Infinity
  if (pressure !== null && pressure >= below) return 0
  const spare = below >= 1 ? 0 : pressure !== null && pressure < quietPressure ? Math.ceil(instanceCount / 2) : 1
  const mayBeBusy = Math.min(Math.ceil(below * instanceCount), Math.max(1, instanceCount - spare))
  return Math.max(0, (mayBeBusy - others) * batchSize - ownCount)
}

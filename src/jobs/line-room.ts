/** How busy the model of a job is, with the lines of the job among its requests. */
export type ModelLoad = {
  readonly pendingCount: number
  readonly inFlightCount: number
  readonly instanceCount: number
  /** Rows that one execution takes. */
  readonly batchSize: number
  /** `galatea_pressure` of the model, as metrics show it; null where the model has none, as an ensemble. */
  readonly pressure: number | null
  /** Whether somebody else asked the model within the window of the pressure. */
  readonly hasClients: boolean
}

/**
 * How many lines may begin, with so many lines of the job under way. While clients use the model, lines leave an instance free for the next client:
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
  const mayBeBusy = Math.min(Math.ceil(below * instanceCount), below < 1 ? Math.max(1, instanceCount - 1) : instanceCount) // prettier-ignore
  return Math.max(0, (mayBeBusy - others) * batchSize - ownCount)
}

// `slo_ms`: computes how long a batch waits from the rate of requests and the duration of executions. Not in Triton.

/** The plan uses this share of the target; the rest is for costs that the plan does not see: sockets, other models. */
const usedShare = 0.8
/** Batches are made so large that instances are busy for this share of the time; the rest is for bursts and others. */
const busyShare = 0.7

export type DelayFacts = {
  /** Rows that wait now, and how long the oldest of them has waited. */
  readonly rows: number
  readonly oldestAgeNs: number
  /** Rows per nanosecond that came in lately. */
  readonly rowRate: number
  /** An execution takes `fixedNs + perRowNs × rows`, give or take `spreadNs`. */
  readonly fixedNs: number
  readonly perRowNs: number
  readonly spreadNs: number
}

export type DelayTarget = {
  readonly sloNs: number
  readonly maxBatchSize: number
  readonly instanceCount: number
  /** `max_queue_delay_microseconds`; Infinity when it is not set. */
  readonly maxDelayNs: number
}

/**
 * The delay, counted from the arrival of the oldest request; 0: run the batch now. Pure. A batch waits only when
 * batches of the present size would keep the instances too busy. It waits for the smallest size that is large enough,
 * and never so long that the oldest request would be late. When no size is large enough, nothing waits: instances that
 * are always busy get large batches anyway, and an idle instance would only make requests late.
 */
export function adaptiveDelayNs(facts: DelayFacts, target: DelayTarget): number {
  const { rows, oldestAgeNs, rowRate, fixedNs, perRowNs, spreadNs } = facts
  const size = neededBatchSize(facts, target)
  if (size <= rows) return 0
  const executionNs = fixedNs + perRowNs * size + 2 * spreadNs
  const latestNs = Math.min(target.sloNs * usedShare - executionNs, target.maxDelayNs)
  if (latestNs <= oldestAgeNs) return 0
  return Math.min(oldestAgeNs + (size - rows) / rowRate, latestNs)
}

/** The smallest batch size at which the instances are not too busy; 1 when there is no such size. */
function neededBatchSize({ rowRate, fixedNs, perRowNs }: DelayFacts, target: DelayTarget): number {
  const { instanceCount, maxBatchSize } = target
  if (rowRate <= 0) return 1
  const nsPerRow = (busyShare * instanceCount) / rowRate
  // fixed + perRow × size ≤ nsPerRow × size
  const size = nsPerRow > perRowNs ? Math.ceil(fixedNs / (nsPerRow - perRowNs)) : Infinity
  return size > maxBatchSize ? 1 : size
}

/** The delay of one model's batcher. */
export class AdaptiveDelay {
  readonly #sloNs: number
  readonly #maxBatchSize: number
  readonly #maxDelayNs: number
  readonly #estimate: LoadEstimate

  /** `maxQueueDelayNs` 0: it is not set, and only the target bounds the delay. */
  constructor(sloNs: number, limits: { readonly maxBatchSize: number; readonly maxQueueDelayNs: number }) {
    this.#sloNs = sloNs
    this.#maxBatchSize = limits.maxBatchSize
    this.#maxDelayNs = limits.maxQueueDelayNs === 0 ? Infinity : limits.maxQueueDelayNs
    this.#estimate = new LoadEstimate(sloNs)
  }

  arrived(rows: number, nowNs: number): void {
    this.#estimate.arrived(rows, nowNs)
  }

  executed(rows: number, elapsedNs: number): void {
    this.#estimate.executed(rows, elapsedNs)
  }

  delayNs(rows: number, oldestAgeNs: number, nowNs: number, instanceCount: number): number {
    const facts = this.#estimate.facts(rows, oldestAgeNs, nowNs)
    if (facts === null) return 0
    const [sloNs, maxBatchSize, maxDelayNs] = [this.#sloNs, this.#maxBatchSize, this.#maxDelayNs]
    return adaptiveDelayNs(facts, { sloNs, maxBatchSize, instanceCount, maxDelayNs })
  }
}

/** Each observation multiplies the weight of the earlier ones by this. */
const keep = 0.95
/** The estimate is used after so many executions. */
const minSamples = 4

/** Learns the DelayFacts. Old observations lose weight, so that the estimate follows a model that slows down. */
export class LoadEstimate {
  readonly #windowNs: number
  #rowRate = 0
  #lastArrivalNs = 0
  #samples = 0
  // Fading sums for a straight line through (rows, duration).
  #weight = 0
  #sumRows = 0
  #sumNs = 0
  #sumRowsRows = 0
  #sumRowsNs = 0
  #fixedNs = 0
  #perRowNs = 0
  #spreadNs = 0

  /** Arrivals are counted over about this long. */
  constructor(windowNs: number) {
    this.#windowNs = windowNs
  }

  // HOT: once per request.
  arrived(rows: number, nowNs: number): void {
    this.#rowRate = this.#rateAt(nowNs) + rows / this.#windowNs
    this.#lastArrivalNs = nowNs
  }

  /** A batch of `rows` took `elapsedNs`, from hand-over to the end. */
  executed(rows: number, elapsedNs: number): void {
    this.#samples++
    if (this.#samples > 1) {
      const error = Math.abs(elapsedNs - this.#fixedNs - this.#perRowNs * rows)
      this.#spreadNs = keep * this.#spreadNs + (1 - keep) * error
    }
    this.#weight = keep * this.#weight + 1
    this.#sumRows = keep * this.#sumRows + rows
    this.#sumNs = keep * this.#sumNs + elapsedNs
    this.#sumRowsRows = keep * this.#sumRowsRows + rows * rows
    this.#sumRowsNs = keep * this.#sumRowsNs + rows * elapsedNs
    this.#fit()
  }

  /** Null: there were too few executions. */
  facts(rows: number, oldestAgeNs: number, nowNs: number): DelayFacts | null {
    if (this.#samples < minSamples) return null
    const { spreadNs, fixedNs, perRowNs } = {
      spreadNs: this.#spreadNs,
      fixedNs: this.#fixedNs,
      perRowNs: this.#perRowNs,
    }
    return { rows, oldestAgeNs, rowRate: this.#rateAt(nowNs), fixedNs, perRowNs, spreadNs }
  }

  #rateAt(nowNs: number): number {
    return this.#rowRate * Math.exp((this.#lastArrivalNs - nowNs) / this.#windowNs)
  }

  #fit(): void {
    const meanRows = this.#sumRows / this.#weight
    const meanNs = this.#sumNs / this.#weight
    const variance = this.#sumRowsRows / this.#weight - meanRows * meanRows
    const covariance = this.#sumRowsNs / this.#weight - meanRows * meanNs
    // Batches of one size say nothing about other sizes: until there are others, the whole time counts as fixed.
    const slope = variance > 1e-6 * meanRows * meanRows ? covariance / variance : 0
    this.#perRowNs = Math.min(Math.max(slope, 0), meanNs / meanRows)
    this.#fixedNs = meanNs - this.#perRowNs * meanRows
  }
}

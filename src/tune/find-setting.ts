// The search, in the steps of an experienced engineer: the model without batching, with batching, with a delay, with
// more instances, and then the best setting for longer. The search knows only the measurements that it asks for.

import { keyOf, settingText, type Setting } from './setting.ts'

export type TuneStep = 'as it is' | 'baseline' | 'batching' | 'delay' | 'instances' | 'confirm' | 'less load'

export type MeasuredPoint = {
  readonly step: TuneStep
  readonly setting: Setting
  /** Requests at once. */
  readonly concurrency: number
  readonly inferPerSecond: number
  /** At the percentile of the limit. */
  readonly latencyMs: number
  /** Rows per execution; 0 when the server does not tell. */
  readonly averageBatch: number
  /** Null when it is not known. */
  readonly memoryMib: number | null
  /** Why there are no figures; '' when there are figures. */
  readonly failure: string
}

export type SearchSpace = {
  /** Ascending, as the other lists. Empty: batching stays as it is. */
  readonly batchSizes: readonly number[]
  readonly delaysUs: readonly number[]
  readonly instances: readonly number[]
  readonly concurrencies: readonly number[]
}

export type TuneLimits = { readonly latencyMs: number; readonly memoryMib: number }

/** Null: there is no time left. */
export type MeasurePoint = (step: TuneStep, setting: Setting, concurrency: number) => Promise<MeasuredPoint | null>

export type TuneVerdict = {
  /** Null when no setting meets the limits. */
  readonly best: MeasuredPoint | null
  /** The best point of the model with its present setting. */
  readonly asItIs: MeasuredPoint | null
  readonly confirmed: MeasuredPoint | null
  /** Why each step ended where it did. */
  readonly findings: readonly string[]
  readonly isTimeUp: boolean
}

/** A smaller gain is noise, or not worth an instance. */
const worthwhile = 1.05
/** Loads within this share of the highest throughput are equally good; the smallest has the shortest latency. */
const asGood = 0.97
/** HTTP or gRPC errors of a server that refused requests at its limits. They are not errors of the model. */
const overloaded = /^\[(?:503|429|14|8)\] /
const mostLessLoads = 4
/** Shares of the load at which the best point was found. */
const confirmedShares = [1, 0.75, 0.5, 0.25]

export async function findSetting(
  current: Setting,
  space: SearchSpace,
  limits: TuneLimits,
  measure: MeasurePoint,
): Promise<TuneVerdict> {
  return new Search(current, space, limits, measure).run()
}

/** The smallest load with nearly the highest throughput, within the limits. */
export function peakOf(points: readonly MeasuredPoint[], limits: TuneLimits): MeasuredPoint | null {
  const allowed = points.filter((point) => isWithin(point, limits))
  const most = Math.max(...allowed.map((point) => point.inferPerSecond))
  return (
    allowed.toSorted((a, b) => a.concurrency - b.concurrency).find((point) => point.inferPerSecond >= most * asGood) ??
    null
  )
}

export const isWithin = ({ failure, latencyMs, memoryMib }: MeasuredPoint, limits: TuneLimits): boolean =>
  failure === '' && latencyMs <= limits.latencyMs && (memoryMib === null || memoryMib <= limits.memoryMib)

class Search {
  readonly #current: Setting
  /** No batching, one instance. */
  readonly #plain: Setting
  readonly #space: SearchSpace
  readonly #limits: TuneLimits
  readonly #measure: MeasurePoint
  readonly #known = new Map<string, MeasuredPoint>()
  readonly #findings: string[] = []
  /** Failures of the model as it is and of the baseline: a tried setting does not cause these. */
  readonly #failures = new Set([''])
  #best: MeasuredPoint | null = null
  #isTimeUp = false

  constructor(current: Setting, space: SearchSpace, limits: TuneLimits, measure: MeasurePoint) {
    this.#current = current
    this.#plain = { ...current, delayUs: null, instances: space.instances[0] ?? 1 }
    this.#space = space
    this.#limits = limits
    this.#measure = measure
  }

  async run(): Promise<TuneVerdict> {
    const asItIs = await this.#climb('as it is', this.#current, 1)
    const baseline = await this.#baseline()
    this.#best = baseline ?? asItIs
    for (const { failure } of this.#known.values()) this.#failures.add(failure)
    if (this.#best !== null) {
      if (this.#space.batchSizes.length > 0) await this.#batching()
      await this.#instances()
      this.#best = this.#settle(asItIs, this.#best)
      if (!this.#isTimeUp) this.#noteEnds(this.#best)
    }
    const { confirmed, before } = await this.#confirm(asItIs)
    const isTimeUp = this.#isTimeUp
    if (confirmed !== null) await this.#lessLoad(confirmed)
    return {
      // A setting that fails the confirmation is not recommended.
      best: confirmed === null ? null : this.#best,
      // The better of the two measurements: on a busy machine the gain is rather too small than too large.
      asItIs: (before?.inferPerSecond ?? 0) > (asItIs?.inferPerSecond ?? 0) ? before : asItIs,
      confirmed,
      findings: this.#findings,
      isTimeUp,
    }
  }

  async #baseline(): Promise<MeasuredPoint | null> {
    const peak = await this.#climb('baseline', this.#plain, 1)
    if (peak !== null) {
      this.#findings.push(`baseline, ${settingText(this.#plain)}: ${figures(peak)}`)
      return peak
    }
    const first = this.#known.get(`${keyOf(this.#plain)}@1`)
    if (first !== undefined && first.failure === '')
      this.#findings.push(`the limits cannot be met: ${this.#why(first)}`)
    return null
  }

  /** The present setting stays unless another gives more, or as much with fewer instances. */
  #settle(asItIs: MeasuredPoint | null, found: MeasuredPoint): MeasuredPoint {
    if (asItIs === null || found.inferPerSecond > asItIs.inferPerSecond * worthwhile) return found
    const isCheaper = found.setting.instances < asItIs.setting.instances
    return isCheaper && found.inferPerSecond * worthwhile >= asItIs.inferPerSecond ? found : asItIs
  }

  /** Notes where the search ended at the edge of its range, because more may be possible there. */
  #noteEnds({ setting, concurrency }: MeasuredPoint): void {
    const { instances, concurrencies, batchSizes } = this.#space
    const ends: string[] = []
    if (instances.length > 1 && setting.instances === instances.at(-1)) ends.push('--max-instances')
    if (setting.delayUs !== null && batchSizes.length > 1 && setting.maxBatchSize === batchSizes.at(-1))
      ends.push('--max-batch-size')
    if (concurrency === concurrencies.at(-1)) ends.push('--max-concurrency')
    if (ends.length > 0)
      this.#findings.push(`the best is where the search ends: more may be had with a higher ${ends.join(', ')}`)
  }

  async #batching(): Promise<void> {
    const before = this.#best as MeasuredPoint
    // One miss may be chance, or the load is still too small for the batch size.
    for (let at = 0, misses = 0; at < this.#space.batchSizes.length && misses < 2; at++) {
      const maxBatchSize = this.#space.batchSizes[at] as number
      const isBetter = await this.#try('batching', { ...before.setting, maxBatchSize, delayUs: 0 })
      if (isBetter === null) return
      misses = isBetter ? 0 : misses + 1
      if (misses === 2)
        this.#findings.push(`batches of up to ${maxBatchSize}: no gain over ${figures(this.#best as MeasuredPoint)}`)
    }
    const { setting } = this.#best as MeasuredPoint
    const maxBatchSize = setting.delayUs === null ? (this.#space.batchSizes[0] ?? 1) : setting.maxBatchSize
    let misses = 0
    for (const delayUs of this.#space.delaysUs) {
      const isBetter = await this.#try('delay', { ...setting, maxBatchSize, delayUs })
      if (isBetter === null) return
      misses = isBetter ? 0 : misses + 1
      if (misses === 2) break
    }
    const found = (this.#best as MeasuredPoint).setting.delayUs
    const words = found === null ? 'batching does not pay' : found === 0 ? 'waiting does not pay' : `${found} us pay`
    this.#findings.push(`delay: ${words}: ${figures(this.#best as MeasuredPoint)}`)
  }

  async #instances(): Promise<void> {
    for (const instances of this.#space.instances.slice(1)) {
      const { setting } = this.#best as MeasuredPoint
      if (instances <= setting.instances) continue
      const isBetter = await this.#try('instances', { ...setting, instances })
      if (isBetter === null) return
      if (isBetter) continue
      const known = this.#pointsOf({ ...setting, instances })
      const over = known.length > 0 && known.every((point) => !isWithin(point, this.#limits)) ? known[0] : undefined
      const reason = over === undefined ? 'no gain: the knee' : this.#why(over)
      this.#findings.push(`${instances} instances: ${reason}; ${setting.instances} it is`)
      return
    }
  }

  /** Whether the setting beats the best so far; null when there is no time left. */
  async #try(step: TuneStep, setting: Setting): Promise<boolean | null> {
    const best = this.#best as MeasuredPoint
    const peak = await this.#climb(step, setting, best.concurrency)
    if (this.#isTimeUp) return null
    if (await this.#failsOnly(setting)) return false
    if (peak === null || peak.inferPerSecond < best.inferPerSecond * worthwhile) return false
    this.#best = peak
    return true
  }

  /** Requests that fail with this setting, and not without it, will fail for clients too. */
  async #failsOnly(setting: Setting): Promise<boolean> {
    for (const { failure, concurrency } of this.#pointsOf(setting)) {
      if (this.#failures.has(failure) || overloaded.test(failure)) continue
      const without = await this.#point('baseline', this.#plain, concurrency)
      if (without?.failure !== failure) return true
      this.#failures.add(failure)
    }
    return false
  }

  /** Raises the load until throughput no longer grows or a limit is passed; then once between the last two. */
  async #climb(step: TuneStep, setting: Setting, from: number): Promise<MeasuredPoint | null> {
    const loads = this.#space.concurrencies
    const points: MeasuredPoint[] = []
    const start = Math.max(
      0,
      loads.findLastIndex((load) => load <= from),
    )
    let most = 0
    let misses = 0
    for (let at = start; at < loads.length && misses < 2; at++) {
      const point = await this.#point(step, setting, loads[at] as number)
      if (point === null) break
      points.push(point)
      if (point.failure !== '') this.#noteFailure(point)
      if (!isWithin(point, this.#limits)) {
        await this.#between(step, setting, points, at > start ? loads[at - 1] : undefined)
        break
      }
      misses = point.inferPerSecond > most * worthwhile ? 0 : misses + 1
      most = Math.max(most, point.inferPerSecond)
    }
    // The first load was too high, so smaller loads are tried. A setting that failed is not chosen with less load either.
    if (points.some(({ failure }) => failure !== '')) return peakOf(points, this.#limits)
    for (let at = start - 1; at >= 0 && peakOf(points, this.#limits) === null && !this.#isTimeUp; at--) {
      const point = await this.#point(step, setting, loads[at] as number)
      if (point === null || point.failure !== '') break
      points.push(point)
    }
    return peakOf(points, this.#limits)
  }

  async #between(step: TuneStep, setting: Setting, points: MeasuredPoint[], below: number | undefined): Promise<void> {
    const over = points.at(-1)
    if (below === undefined || over === undefined || over.failure !== '') return
    const middle = Math.round((below + over.concurrency) / 2)
    if (middle === below || middle === over.concurrency) return
    const point = await this.#point(step, setting, middle)
    if (point !== null) points.push(point)
  }

  async #point(step: TuneStep, setting: Setting, concurrency: number): Promise<MeasuredPoint | null> {
    const key = `${keyOf(setting)}@${concurrency}`
    const known = this.#known.get(key)
    if (known !== undefined) return known
    if (this.#isTimeUp) return null
    const point = await this.#measure(step, setting, concurrency)
    if (point === null) this.#isTimeUp = true
    else this.#known.set(key, point)
    return point
  }

  /** Measures longer than the search, also the present setting: one lucky window is not a reason to change. */
  async #confirm(
    asItIs: MeasuredPoint | null,
  ): Promise<{ readonly confirmed: MeasuredPoint | null; readonly before: MeasuredPoint | null }> {
    const found = this.#best
    const confirmed = found === null ? null : await this.#confirmOne(found)
    const isSame = found === null || asItIs === null || keyOf(found.setting) === keyOf(asItIs.setting)
    if (isSame) return { confirmed, before: null }
    const before = await this.#confirmOne(asItIs)
    if (before === null || (confirmed !== null && this.#settle(before, confirmed) === confirmed))
      return { confirmed, before }
    if (confirmed !== null) {
      this.#findings.push(
        `confirmation: ${settingText(found.setting)}: ${figures(confirmed)}, no better than as it is: ${figures(before)}`,
      )
    }
    this.#best = asItIs
    return { confirmed: before, before }
  }

  /** When the point is over a limit now, smaller loads are tried. */
  async #confirmOne({ setting, concurrency }: MeasuredPoint): Promise<MeasuredPoint | null> {
    for (const load of new Set(confirmedShares.map((share) => Math.max(1, Math.floor(concurrency * share))))) {
      const point = await this.#measure('confirm', setting, load)
      if (point === null) {
        this.#isTimeUp = true
        return null
      }
      if (isWithin(point, this.#limits)) return point
      this.#findings.push(`confirmation of ${settingText(setting)}: ${this.#why(point)}`)
    }
    return null
  }

  /** Measures the best setting with less load too, because the search looked only at its peak. */
  async #lessLoad({ setting, concurrency }: MeasuredPoint): Promise<void> {
    const loads = this.#space.concurrencies.filter((load) => load < concurrency)
    const apart = Math.ceil(loads.length / mostLessLoads)
    for (const load of loads.filter((_, at) => at % apart === 0)) await this.#point('less load', setting, load)
  }

  #pointsOf(setting: Setting): MeasuredPoint[] {
    return [...this.#known.values()].filter((point) => keyOf(point.setting) === keyOf(setting))
  }

  #noteFailure({ setting, concurrency, failure }: MeasuredPoint): void {
    if (this.#findings.some((finding) => finding.endsWith(failure))) return
    this.#findings.push(`${settingText(setting)}, ${concurrency} at once: ${failure}`)
  }

  #why({ failure, latencyMs, memoryMib, concurrency }: MeasuredPoint): string {
    if (failure !== '') return `${failure} (with ${concurrency} at once)`
    if (memoryMib !== null && memoryMib > this.#limits.memoryMib) {
      return `${Math.round(memoryMib)} MiB are more than the ${Math.round(this.#limits.memoryMib)} allowed`
    }
    const at = concurrency === 1 ? 'one request at a time takes' : `with ${concurrency} at once a request takes`
    return `${at} ${latencyMs.toFixed(1)} ms, more than the ${this.#limits.latencyMs} allowed`
  }
}

const figures = ({ inferPerSecond, latencyMs, concurrency }: MeasuredPoint): string =>
  `${Math.round(inferPerSecond)} infer/s at ${latencyMs.toFixed(2)} ms with ${concurrency} at once`

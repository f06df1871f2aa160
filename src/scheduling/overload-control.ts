// Finds out whether a queue gets more than its model can do, and what to do about it. There is no timer: every arrival and
// every start of an execution brings the time. docs/guide/overload.md has the rule in words.

import type { OverloadState } from '../model/queue-report.ts'

export type OverloadSettings = {
  /** A queueing delay up to this one is no sign of overload. */
  readonly targetNs: number
  /** A delay that the configuration asks for on top, to fill batches. */
  readonly batchDelayNs: number
  /** Most requests of one execution. */
  readonly maxBatchSize: number
}

/** An interval is so many targets as they were set, and so many targets as the execution times make them. */
const intervalSetTargets = 5
const intervalTargets = 2
/** Under this many starts nothing is said about a rate. */
const leastStarts = 5
/** The target is at least this many executions long: a slow model must not refuse its second request. */
const targetExecutions = 3
/** So many requests give up for each that begins: a sign of overload, and a sign that needs no further proof. */
const quitShare = 0.05
const alarmingQuitShare = 0.5
/** Arrivals are above or below starts when they differ by this share. */
const tolerance = 0.1
/** Requests are refused only when arrivals are so much above starts. */
const surplusToRefuse = 0.2
/** When this share of the requests finds an idle Instance, there is no overload. */
const idleShare = 0.05
/** So many windows without a pause must have more arrivals than starts before requests are refused that nobody gave up. */
const patientWindows = 4
/** A window is so many intervals. */
const windowIntervals = 5
/** What was found is forgotten when nothing new was found for so many windows. */
const longWindows = 4
const smoothing = 1 / 16
/** A gap between two starts counts as at most so many usual ones. */
const mostGaps = 16

export class OverloadControl {
  readonly #settings: OverloadSettings
  #state: OverloadState = 'CALM'
  /** In CALM: since when the delay is above the target as it was set, 0 when it is not. Else: the beginning of the window. */
  #sinceNs = 0
  #arrived = 0
  #started = 0
  #quit = 0
  /** Requests that found an idle Instance. */
  #passed = 0
  #overloadedWindows = 0
  /** The queue was empty in this window. */
  #wasEmpty = false
  // How fast requests leave the queue, measured while others wait.
  #lastStartNs = 0
  #gapNs = 0
  #perStart = 1
  #targetNs: number
  /** Above this delay it counts who gives up: clients of a slow model may leave before the target is reached. */
  readonly #watchNs: number
  #bound = Infinity

  constructor(settings: OverloadSettings) {
    this.#settings = settings
    this.#watchNs = settings.targetNs + settings.batchDelayNs
    this.#targetNs = this.#watchNs
  }

  get state(): OverloadState {
    return this.#state
  }

  get isCalm(): boolean {
    return this.#state === 'CALM'
  }

  /** The queueing delay is above the target as it was set. */
  get isDelayed(): boolean {
    return this.#sinceNs !== 0
  }

  /** How many requests can run within the target; Infinity while that is not known. */
  get bound(): number {
    return this.#bound
  }

  /** How long a queue of this length takes; 0 while that is not known. */
  drainNs(queueSize: number): number {
    return (queueSize / this.#perStart) * this.#gapNs
  }

  /** A request came; one that is refused counts too. */
  arrived(nowNs: number): void {
    if (this.#sinceNs === 0) return
    this.#arrived++
    if (this.#state !== 'CALM') this.#endWindow(nowNs)
  }

  /** A request was refused before it was read. */
  turnedAway(): void {
    this.#arrived++
  }

  /** A request left the queue because its client gave it up, or its time was over. */
  quit(): void {
    if (this.#sinceNs !== 0) this.#quit++
  }

  /** A request came and found an idle Instance. */
  passed(nowNs: number): void {
    if (this.#state === 'CALM') return
    this.#arrived++
    this.#started++
    this.#passed++
    this.#endWindow(nowNs)
  }

  /** Nobody waits any more. */
  emptied(): void {
    this.#lastStartNs = 0
    this.#wasEmpty = true
    if (this.#state === 'CALM') this.#sinceNs = 0
  }

  /** So many requests begin to run, the first of them after this delay. */
  started(count: number, delayNs: number, nowNs: number, instanceCount: number): void {
    this.#measure(count, nowNs, instanceCount)
    if (this.#state !== 'CALM') {
      this.#started += count
      this.#endWindow(nowNs)
    } else if (delayNs <= this.#watchNs) this.#sinceNs = 0
    else if (this.#sinceNs === 0) this.#restart(nowNs)
    else {
      this.#started += count
      const isGrowing = delayNs > this.#targetNs && this.#isGrowing
      const isProven = this.#isOver(nowNs, this.#intervalNs) && (isGrowing || this.#isQuitting)
      if (isProven || this.#isAlarming) this.#enter(nowNs)
    }
  }

  #measure(count: number, nowNs: number, instanceCount: number): void {
    const lastNs = this.#lastStartNs
    this.#lastStartNs = nowNs
    if (lastNs === 0) return
    const isFirst = this.#gapNs === 0
    // One pause of the whole machine must not make the model look slow.
    const gapNs = isFirst ? nowNs - lastNs : Math.min(nowNs - lastNs, mostGaps * this.#gapNs)
    this.#gapNs += (gapNs - this.#gapNs) * (isFirst ? 1 : smoothing)
    this.#perStart += (count - this.#perStart) * (isFirst ? 1 : smoothing)
    const { targetNs, batchDelayNs, maxBatchSize } = this.#settings
    const executionNs = this.#gapNs * instanceCount
    this.#targetNs = Math.max(targetNs, targetExecutions * executionNs) + batchDelayNs
    const fits = (this.#targetNs / Math.max(this.#gapNs, 1)) * this.#perStart
    this.#bound = Math.max(2 * maxBatchSize * instanceCount, Math.ceil(fits))
  }

  get #intervalNs(): number {
    return Math.max(intervalSetTargets * this.#settings.targetNs, intervalTargets * this.#targetNs)
  }

  #isOver(nowNs: number, lengthNs: number): boolean {
    return nowNs - this.#sinceNs >= lengthNs && this.#started >= leastStarts
  }

  /** More came than began, by more than chance explains. */
  get #isGrowing(): boolean {
    return this.#arrived - this.#started > 3 * Math.sqrt(this.#arrived)
  }

  get #isQuitting(): boolean {
    return this.#quit >= 3 && this.#quit >= quitShare * this.#started
  }

  get #isAlarming(): boolean {
    return this.#started >= leastStarts && this.#quit >= alarmingQuitShare * this.#started
  }

  #restart(nowNs: number): void {
    this.#sinceNs = nowNs
    this.#arrived = 0
    this.#started = 0
    this.#quit = 0
    this.#passed = 0
    this.#wasEmpty = false
  }

  #enter(nowNs: number): void {
    this.#state = 'NEWEST_FIRST'
    this.#overloadedWindows = 0
    this.#restart(nowNs)
  }

  #endWindow(nowNs: number): void {
    const lengthNs = nowNs - this.#sinceNs
    const windowNs = windowIntervals * this.#intervalNs
    if (lengthNs < windowNs) return
    // Hardly anything began: the window goes on, but not for ever.
    const isLong = lengthNs >= longWindows * windowNs
    if (this.#started < leastStarts && !isLong) return
    this.#state = isLong ? 'CALM' : this.#stateAfter(this.#arrived, this.#started)
    this.#restart(this.#state === 'CALM' ? 0 : nowNs)
  }

  #stateAfter(arrived: number, started: number): OverloadState {
    const wasBusy = this.#state === 'REFUSING' ? this.#passed <= idleShare * started : !this.#wasEmpty
    if (wasBusy && arrived > (1 + surplusToRefuse) * started) {
      this.#overloadedWindows++
      return this.#isQuitting || this.#overloadedWindows >= patientWindows ? 'REFUSING' : this.#state
    }
    this.#overloadedWindows = 0
    if (this.#isQuitting || arrived > (1 + tolerance) * started) return 'NEWEST_FIRST'
    // The queue gets shorter. Requests that come now need not wait for those of before.
    return arrived < (1 - tolerance) * started && !this.#wasEmpty ? 'NEWEST_FIRST' : 'CALM'
  }
}

// How many threads compute the next step. The threads of llama.cpp wait for each other after every operation, several hundred
// times in a step, and they wait in a loop. Where other programs use the cores too, one thread that is not running holds up all
// others: on two crowded cores a step with two threads took 10 to 20 times as long as a step with one. So fewer threads are
// tried when the system takes cores away, more are tried now and then, and what was faster stays.

type StepReport = {
  readonly tokens: number
  readonly tookMs: number
  readonly nowMs: number
  /** Of all threads of this process, in this step. */
  readonly cpuMs: number
}

type Trial = { readonly threads: number; readonly times: number[] }

/**
 * Threads that compute or wait in a loop have a core all the time. With less than this share of it they share the core with others: it is crowded.
 * How often a core is taken away says less, because the server itself does so for a moment with every token that it sends.
 */
const crowdedShare = 0.85
/** Of what earlier steps had, so much counts beside the last one: times of short steps are rough. */
const memory = 0.8
/** Steps that are compared. One step may be slow for other reasons. */
const comparedSteps = 3
/** Another number of threads must be this much faster to be kept. */
const betterThan = 0.85
/** A trial ends at once where a step takes so much longer, or so much shorter. */
const hopeless = 1.5
const plain = 0.5
/** When all fewer numbers were tried in vain, the next trial needs a reason: steps that take so much longer than the fastest of their size did. */
const slow = 1.3
/** Steps of other sizes cannot be compared. */
const alike = 0.75
const shortestPauseMs = 500
const longestPauseMs = 30_000

export class ThreadGovernor {
  readonly #most: number
  #settled: number
  #trial: Trial | null = null
  /** What the last steps with the settled number took. */
  #usual: number[] = []
  #tokens = 0
  /** What the fastest steps took, by the logarithm of their size. */
  readonly #fastest = new Map<number, number>()
  /** What the last steps had of the cores, and what they could have had. */
  #hadMs = 0
  #mostMs = 0
  /** Fewer threads that were no better, one after the other: the next trial has fewer again. */
  #failures = 0
  #pauseMs = shortestPauseMs
  #nextTrialMs = 0

  constructor(most: number) {
    this.#most = most
    this.#settled = most
  }

  /** For the next step. */
  get threads(): number {
    return this.#trial?.threads ?? this.#settled
  }

  stepped({ tokens, tookMs, nowMs, cpuMs }: StepReport): void {
    this.#hadMs = memory * this.#hadMs + cpuMs
    this.#mostMs = memory * this.#mostMs + tookMs * this.threads
    if (!isAlike(tokens, this.#tokens)) {
      this.#trial = null
      this.#usual = []
    }
    this.#tokens = tokens
    if (this.#trial !== null) this.#judge(this.#trial, tookMs, nowMs)
    else {
      this.#usual.push(tookMs)
      if (this.#usual.length > comparedSteps) this.#usual.shift()
      if (nowMs >= this.#nextTrialMs) this.#begin()
    }
  }

  #begin(): void {
    const isCrowded = this.#hadMs < crowdedShare * this.#mostMs
    const more = Math.min(this.#most, Math.ceil(this.#settled * 1.25))
    const numbers = Math.max(1, Math.floor(Math.log2(this.#settled)))
    const halvings = 1 + (this.#failures % numbers)
    if (isCrowded && this.#settled > 1 && (this.#isSlow() || this.#failures < numbers))
      this.#trial = { threads: this.#settled >> halvings, times: [] }
    else if (!isCrowded && more > this.#settled && this.#usual.length === comparedSteps) {
      this.#trial = { threads: more, times: [] }
    }
  }

  /** Every trial holds up all answers for a few steps. */
  #isSlow(): boolean {
    const size = Math.round(2 * Math.log2(this.#tokens))
    const fastest = this.#fastest.get(size) ?? Infinity
    const usual = middleOf(this.#usual)
    if (this.#usual.length === comparedSteps) this.#fastest.set(size, Math.min(usual, fastest))
    return usual > fastest * slow
  }

  #judge(trial: Trial, tookMs: number, nowMs: number): void {
    trial.times.push(tookMs)
    const usual = middleOf(this.#usual)
    const isClear = tookMs > usual * hopeless || tookMs < usual * plain
    if (trial.times.length < comparedSteps && !isClear) return
    const isBetter = tookMs < usual * hopeless && middleOf(trial.times) < usual * betterThan
    this.#trial = null
    if (trial.threads < this.#settled) this.#failures = isBetter ? 0 : this.#failures + 1
    if (isBetter) {
      this.#settled = trial.threads
      this.#usual = trial.times
    }
    this.#pauseMs = isBetter ? shortestPauseMs : Math.min(longestPauseMs, this.#pauseMs * 2)
    this.#nextTrialMs = isBetter ? nowMs : nowMs + this.#pauseMs
  }
}

const isAlike = (a: number, b: number): boolean => Math.min(a, b) >= alike * Math.max(a, b)

function middleOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}

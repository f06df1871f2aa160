// A fault that comes late is hidden by the health before it. So a test is begun anew, again and again, beside the one that has run from
// the beginning, and each of these tests has a stake of its own.

import { logMeanExp } from './log-gamma.ts'

/** All tests of the last so many starts go on. */
const newestStarts = 4
/** A test that began so many starts ago ends. Older ones thin out up to there: of twice the age there are half as many. */
const mostStartsBack = 256

export type Started = { readonly start: number }

/** `ticks` of the whole rollout, and the tests of later starts that go on. */

export type StartedSums<Later extends Started> = { readonly ticks: number; readonly later: readonly Later[] }

/** Later starts of one kind of test. `start` counts from 1. */
export class LaterStarts {
  readonly #ticksPerStart: number
  /** The stake of the test that has run from the beginning. The others share the rest. */
  readonly firstStake: number

  /** So many ticks after the start before it a test begins anew. Many starts find a fault soon after it began, and make each stake smaller. */
  constructor(ticksPerStart: number, firstStake: number) {
    this.#ticksPerStart = ticksPerStart
    this.firstStake = firstStake
  }

  /** The stakes of all starts and `firstStake` together are 1. */
  stakeOf(start: number): number {
    return this.#shareFrom(start) - this.#shareFrom(start + 1)
  }

  /** The start that the tick after `ticks` ticks begins; 0: it begins none. */
  startAt(ticks: number): number {
    return ticks % this.#ticksPerStart === 0 ? ticks / this.#ticksPerStart : 0
  }

  /**
   * `whole` is the ln e of the test that has run from the beginning. A stake that is not in play yet is worth itself, and all
   * stakes together are 1: while the candidate is not worse the sum is an e-process, as each test is. `best` is the later test with
   * the most; null: the first one has it.
   */
  mix<Later extends Started>(
    whole: number,
    { ticks, later }: StartedSums<Later>,
    evidenceOf: (one: Later) => number,
  ): { readonly logEvidence: number; readonly best: Later | null } {
    let best: Later | null = null
    let most = Math.log(this.firstStake) + whole
    const logs = [most, Math.log(this.#shareFrom(this.#lastStart(ticks) + 1))]
    for (const one of later) {
      const log = Math.log(this.stakeOf(one.start)) + evidenceOf(one)
      logs.push(log)
      if (log > most) [most, best] = [log, one]
    }
    return { logEvidence: logMeanExp(logs) + Math.log(logs.length), best }
  }

  /** The later tests of two servers, start by start. A test that one of them has given up counts no more: without its part the sum could jump up. */
  add<Later extends Started>(
    a: StartedSums<Later>,
    b: StartedSums<Later>,
    add: (a: Later, b: Later) => Later,
  ): Later[] {
    const last = this.#lastStart(Math.max(a.ticks, b.ticks))
    const byStart = new Map(a.later.map((one) => [one.start, one]))
    for (const one of b.later) {
      const other = byStart.get(one.start)
      byStart.set(one.start, other === undefined ? one : add(other, one))
    }
    return keptStarts([...byStart.values()], last).toSorted((one, other) => one.start - other.start)
  }

  /** What the start has together with all later ones. It falls slowly, so that something is left for late faults. */
  #shareFrom(start: number): number {
    return (1 - this.firstStake) * start ** -0.3
  }

  /** The last start in so many ticks; 0: there was none. */
  #lastStart(ticks: number): number {
    return Math.max(0, Math.floor((ticks - 1) / this.#ticksPerStart))
  }
}

/**
 * The tests that go on when the start `last` has come. What a test has found by its end is given up: that only lowers the evidence. A test
 * that has ended stays so, whatever `last` becomes, so servers with other numbers of ticks agree about it.
 */
export const keptStarts = <Later extends Started>(later: readonly Later[], last: number): readonly Later[] =>
  later.filter(({ start }) => isKept(start, last))

function isKept(start: number, last: number): boolean {
  const age = last - start
  if (age < newestStarts) return true
  if (age >= mostStartsBack) return false
  return start % 2 ** (Math.floor(Math.log2(age / newestStarts)) + 1) === 0
}

// How many instances a version should have now, decided from what was seen each second. Pure: no clock, no I/O.

import type { ScaleLimits } from '../config/scale-limits.ts'

/** One second of a version. All figures are per GPU where the instance group names several. */
type ScaleSample = {
  readonly atSec: number
  /** Busy instances, and the instances that the waiting requests would keep busy for a second. */
  readonly demand: number
  /** Busy instances alone. */
  readonly busy: number
  /** Rows that were answered so far. */
  readonly rows: number
  /** Instances that there are. */
  readonly count: number
}

/** Instances were added. Whether they help is seen when all of them are busy. */
type Trial = {
  readonly from: number
  readonly to: number
  readonly rowsPerSecBefore: number
  readonly beganSec: number
  readonly busySecs: number
  readonly rows: number
}

type ScaleState = {
  /** The last minute, the oldest first. */
  readonly samples: readonly ScaleSample[]
  /** Until then nothing shrinks. */
  readonly panicUntilSec: number
  /** Since then fewer instances would do; the most that were wanted since then. */
  readonly below: { readonly sinceSec: number; readonly most: number } | null
  readonly trial: Trial | null
  /** More than `count` were tried and did not help, or could not be made. */
  readonly ceiling: { readonly count: number; readonly untilSec: number } | null
}

export type ScaleReason = 'panic' | 'load' | 'floor' | 'quiet' | 'knee'
export type ScaleMove = { readonly count: number; readonly reason: ScaleReason; readonly why: string }

export const scaleStart: ScaleState = { samples: [], panicUntilSec: 0, below: null, trial: null, ceiling: null }

const stableSecs = 60
const panicSecs = 6
const leastSamples = 3
const panicFactor = 2
const panicHoldSecs = 60
const shrinkAfterSecs = 300
const busyShare = 0.9
const kneeSecs = 15
const kneeGain = 0.05
const kneeBlockSecs = 600
/** Instances that were never all busy for so long after they came have absorbed the load. */
const trialSecs = 120

/** `floor` is what a forecast or an operator asks for at least; 0: nothing. */
export function planInstances(
  state: ScaleState,
  limits: Pick<ScaleLimits, 'min' | 'max' | 'target'>,
  sample: ScaleSample,
  floor: number,
): { readonly state: ScaleState; readonly move: ScaleMove | null } {
  const samples = [...state.samples, sample].filter(({ atSec }) => sample.atSec - atSec < stableSecs)
  const noted = judgeTrial({ ...state, samples, ceiling: stillValid(state.ceiling, sample.atSec) }, sample)
  if (noted.move !== null) return noted
  return planByLoad(noted.state, limits, sample, floor)
}

function planByLoad(
  state: ScaleState,
  limits: Pick<ScaleLimits, 'min' | 'max' | 'target'>,
  { atSec, count }: ScaleSample,
  floor: number,
): { readonly state: ScaleState; readonly move: ScaleMove | null } {
  const { samples } = state
  const most = Math.max(limits.min, Math.min(limits.max, state.ceiling?.count ?? Infinity))
  const bounded = (wanted: number): number => Math.min(most, Math.max(limits.min, wanted))
  const stable = wantedFor(samples, limits.target)
  const recent = samples.filter((one) => atSec - one.atSec < panicSecs)
  const panic = recent.length < leastSamples ? 0 : wantedFor(recent, limits.target)
  const isPanic = panic >= panicFactor * count && bounded(panic) > count
  const panicUntilSec = isPanic ? atSec + panicHoldSecs : state.panicUntilSec
  const byLoad = isPanic ? Math.max(panic, stable) : samples.length < leastSamples ? count : stable
  const wanted = bounded(Math.max(byLoad, floor))
  if (wanted > count) {
    const reason = isPanic ? 'panic' : floor > byLoad ? 'floor' : 'load'
    const why = growthText(reason, isPanic ? recent : samples, floor)
    const trial = beginTrial(state, count, wanted, atSec)
    return { state: { ...state, panicUntilSec, below: null, trial }, move: { count: wanted, reason, why } }
  }
  if (count > limits.max) return { state, move: { count: most, reason: 'quiet', why: `at most ${most} are allowed` } }
  if (wanted === count || atSec < panicUntilSec) return { state: { ...state, panicUntilSec, below: null }, move: null }
  const below = { sinceSec: state.below?.sinceSec ?? atSec, most: Math.max(state.below?.most ?? 0, wanted) }
  if (atSec - below.sinceSec < shrinkAfterSecs) return { state: { ...state, below }, move: null }
  const fewer = Math.max(below.most, Math.ceil(count / 2))
  const why = `${below.most} would have done for ${shrinkAfterSecs} s`
  return { state: { ...state, below: null, trial: null }, move: { count: fewer, reason: 'quiet', why } }
}

/** The move could not be made: nothing more is tried for a while. */
export const refused = (state: ScaleState, count: number, untilSec: number): ScaleState => ({
  ...state,
  trial: null,
  ceiling: { count, untilSec },
})

export const meanDemand = (samples: readonly ScaleSample[]): number =>
  samples.length === 0 ? 0 : samples.reduce((sum, { demand }) => sum + demand, 0) / samples.length

// Sums of shares are not exact: 2.1 ÷ 0.7 must be 3, and not 4.
const wantedFor = (samples: readonly ScaleSample[], target: number): number =>
  Math.ceil(meanDemand(samples) / target - 1e-6)

function growthText(reason: ScaleReason, samples: readonly ScaleSample[], floor: number): string {
  if (reason === 'floor') return `at least ${floor} are asked for`
  return `demand is ${meanDemand(samples).toFixed(2)} instances over ${samples.length} s`
}

const stillValid = (ceiling: ScaleState['ceiling'], atSec: number): ScaleState['ceiling'] =>
  ceiling !== null && atSec < ceiling.untilSec ? ceiling : null

const isSaturated = ({ busy, count }: ScaleSample): boolean => busy >= busyShare * count

/** Null where it is not known what fewer instances could do at most. */
function beginTrial({ samples, trial }: ScaleState, from: number, to: number, beganSec: number): Trial | null {
  const fresh = { to, beganSec, busySecs: 0, rows: 0 }
  if (trial !== null) return { ...trial, ...fresh }
  const before = samples.slice(-kneeSecs)
  const first = before.findLastIndex((one) => !isSaturated(one)) + 1
  const full = before.slice(first)
  const [begin, end] = [full[0], full.at(-1)]
  if (begin === undefined || end === undefined || full.length < leastSamples) return null
  return { from, rowsPerSecBefore: (end.rows - begin.rows) / (end.atSec - begin.atSec), ...fresh }
}

/** Instances that brought next to nothing while all of them were busy are taken back. */
function judgeTrial(state: ScaleState, sample: ScaleSample): { state: ScaleState; move: ScaleMove | null } {
  const { trial, samples } = state
  if (trial === null || sample.count !== trial.to) return { state, move: null }
  if (sample.atSec - trial.beganSec > trialSecs) return { state: { ...state, trial: null }, move: null }
  const before = samples.at(-2)
  if (before === undefined || before.count !== trial.to || !isSaturated(sample)) return { state, move: null }
  const busySecs = trial.busySecs + sample.atSec - before.atSec
  const rows = trial.rows + sample.rows - before.rows
  if (busySecs < kneeSecs) return { state: { ...state, trial: { ...trial, busySecs, rows } }, move: null }
  const { from, to, rowsPerSecBefore } = trial
  // With many instances one more brings less than 5 % even at its best: half of the best is asked for then.
  const leastGain = Math.min(kneeGain, (to - from) / from / 2)
  const rate = rows / busySecs
  if (rate >= rowsPerSecBefore * (1 + leastGain)) return { state: { ...state, trial: null }, move: null }
  const why = `${to} instances did ${rate.toFixed(1)} rows a second, ${from} did ${rowsPerSecBefore.toFixed(1)}`
  const next = { ...refused(state, from, sample.atSec + kneeBlockSecs), panicUntilSec: 0, below: null }
  return { state: next, move: { count: from, reason: 'knee', why } }
}

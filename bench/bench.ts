// What a benchmark is: a name, and a run that gives figures. Figures are ratios or rates measured against something in
// the same run; bench/run.ts prints them and, when asked, keeps them.

import { stolenSeconds } from './process-usage.ts'

export type BenchSettings = {
  /** How often each subject is measured; subjects take turns and medians count. */
  readonly rounds: number
  /** How long one measurement of a load takes. */
  readonly secondsPerRun: number
  readonly say: (line: string) => void
}

export type Figure = {
  readonly what: string
  readonly value: number
  /** `×` for a ratio to the bare server in the same run. */
  readonly unit: string
  /** What it is held to; null for figures that only inform. */
  readonly target: { readonly kind: 'at most' | 'at least'; readonly value: number } | null
  /** The figures behind the value, in words. */
  readonly detail: string
}

export type Bench = {
  readonly name: string
  readonly summary: string
  run(settings: BenchSettings): Promise<readonly Figure[]>
}

export const isMet = ({ value, target }: Figure): boolean =>
  target === null || (target.kind === 'at most' ? value <= target.value : value >= target.value)

export const medianOf = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? (sorted[middle] ?? NaN) : ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2
}

/** Of one core: from here on a measurement says more about the machine than about its subject. */
export const mostStolen = 0.04
const mostAttempts = 4

/**
 * The host of a virtual machine may give its cores to others in the middle of a measurement: then it is done again, a few
 * times, and the one that was disturbed least counts.
 */
export const undisturbed = async <Measured>(
  measure: () => Promise<Measured>,
  onRepeat: () => void = () => undefined,
): Promise<Measured> => {
  let best: { readonly measured: Measured; readonly stolen: number } | null = null
  for (let attempt = 1; ; attempt++) {
    const [startedMs, stolenBefore] = [performance.now(), stolenSeconds()]
    const measured = await measure()
    const stolen = ((stolenSeconds() - stolenBefore) * 1000) / (performance.now() - startedMs)
    if (best === null || stolen < best.stolen) best = { measured, stolen }
    if (best.stolen <= mostStolen || attempt === mostAttempts) return best.measured
    onRepeat()
  }
}

/**
 * Measures the subjects in turn, `rounds` times, so that what the machine does meanwhile hits all of them alike, and
 * gives the measurements of each.
 */
export const alternate = async <Name extends string, Measured>(
  rounds: number,
  subjects: Readonly<Record<Name, () => Promise<Measured>>>,
): Promise<Record<Name, Measured[]>> => {
  const names = Object.keys(subjects) as Name[]
  const measured = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, Measured[]>
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      measured[name].push(await undisturbed(subjects[name]))
    }
  }
  return measured
}

/** The median of the ratios round by round: neighbours in time are compared, not the best of one with the worst of another. */
export const medianRatio = <T>(ours: readonly T[], others: readonly T[], of: (measured: T) => number): number =>
  medianOf(
    ours.map((measured, round) => {
      const other = others[round]
      return other === undefined ? NaN : of(measured) / of(other)
    }),
  )

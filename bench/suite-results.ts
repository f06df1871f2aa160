// What the suite keeps of its measurements.

import { medianOf } from './bench.ts'
import type { SuiteRun } from './suite-load-process.ts'
import type { Transport } from './suite-workloads.ts'

export type Placing = 'pinned' | 'unpinned'
export type SuiteLoadShape =
  | { readonly kind: 'closed'; readonly concurrency: number }
  /** Poisson arrivals; latency counts from when a request was due. */
  | { readonly kind: 'open'; readonly perSecond: number }

export type CaseName = {
  readonly workload: string
  readonly transport: Transport
  readonly placing: Placing
  readonly load: SuiteLoadShape
}

export type SubjectRuns = { readonly subject: string; readonly runs: readonly SuiteRun[] }
export type CaseResult = CaseName & { readonly subjects: readonly SubjectRuns[] }

/** Times until ready and memory: one value per round. */
export type SeriesResult = {
  readonly what: 'ready s, ONNX' | 'ready s, Python' | 'idle MiB, ONNX'
  readonly subject: string
  readonly values: readonly number[]
}

export type SuiteResults = {
  readonly day: string
  readonly machine: string
  readonly conditions: string
  /** Others were at work too: more than the machine has cores. */
  readonly isBusyMachine: boolean
  readonly hasTriton: boolean
  readonly cases: readonly CaseResult[]
  readonly series: readonly SeriesResult[]
  readonly notes: readonly string[]
}

export type RunFigure = keyof SuiteRun

export const runsOf = (result: CaseResult | undefined, subject: string): readonly SuiteRun[] =>
  result?.subjects.find((each) => each.subject === subject)?.runs ?? []

/** NaN when it was not measured. */
export function medianFigure(result: CaseResult | undefined, subject: string, figure: RunFigure): number {
  const runs = runsOf(result, subject)
  return runs.length === 0 ? NaN : medianOf(runs.map((run) => run[figure]))
}

/** How far the rounds lie apart: half of largest minus smallest, as a share of the median. */
export function spreadOf(values: readonly number[]): number {
  return values.length < 2 ? 0 : (Math.max(...values) - Math.min(...values)) / 2 / medianOf(values)
}

export const findCase = (
  { cases }: SuiteResults,
  workload: string,
  transport: Transport,
  concurrency: number,
  placing: Placing = 'pinned',
): CaseResult | undefined =>
  cases.find(
    (each) =>
      each.workload === workload &&
      each.transport === transport &&
      each.placing === placing &&
      each.load.kind === 'closed' &&
      each.load.concurrency === concurrency,
  )

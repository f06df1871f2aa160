// The table of targets, row by row: what was measured, against what, and whether it is met.

import { medianOf } from './bench.ts'
import { tritonAnchors, tritonPairGrpcCpuUs, type AnchorCell } from './triton-anchors.ts'
import { findCase, medianFigure, runsOf, type CaseResult, type SuiteResults } from './suite-results.ts'
import { echoName, galateaName, tritonName, tritonPairName } from './suite-subjects.ts'
import type { Transport } from './suite-workloads.ts'

export type Verdict = 'goal' | 'met' | 'missed' | 'not measured'

export type TargetRow = {
  readonly what: string
  readonly unit: string
  readonly floor: number
  readonly goal: number
  readonly isAtLeast: boolean
  readonly value: number
  readonly verdict: Verdict
  readonly basis: string
}

type Compared = { readonly value: number; readonly basis: string }
type Measure = 'cpuUs' | 'p50Us' | 'p99Us'

const small = ['identity', 'simple', 'digits'] as const

export function targetRows(results: SuiteResults): TargetRow[] {
  const rows: TargetRow[] = []
  const add = (
    what: string,
    unit: string,
    floor: number,
    goal: number,
    { value, basis }: Compared,
    isAtLeast = false,
  ): void => {
    rows.push({ what, unit, floor, goal, isAtLeast, value, basis, verdict: verdictOf(value, floor, goal, isAtLeast) })
  }
  const ratio = (workload: string, transport: Transport, at: number, measure: Measure): Compared =>
    comparedWithTriton(results, workload, transport, at, measure)
  const bands = [
    ['binary', 'HTTP binary', 0.75, 0.45],
    ['json', 'HTTP JSON', 0.85, 0.5],
    ['grpc', 'gRPC', 1, 0.4],
  ] as const
  for (const [transport, text, floor, goal] of bands) {
    for (const workload of small) {
      for (const at of [16, 64])
        add(`CPU: ${workload}, ${text}, c=${at}`, '×', floor, goal, ratio(workload, transport, at, 'cpuUs'))
    }
  }
  for (const workload of [...small, 'add_sub']) {
    for (const [transport, text] of [
      ['binary', 'HTTP'],
      ['grpc', 'gRPC'],
    ] as const) {
      // prettier-ignore
      add(`p50: ${workload}, ${text}, c=1`, '×', 1, 0.7, ratio(workload, transport, 1, 'p50Us'))
      add(`p99: ${workload}, ${text}, c=64`, '×', 1, 0.6, ratio(workload, transport, 64, 'p99Us'))
    }
  }
  for (const [transport, text] of [
    ['binary', 'HTTP'],
    ['grpc', 'gRPC'],
  ] as const) {
    // prettier-ignore
    for (const at of [1, 16, 64]) add(`CPU: Python add_sub, ${text}, c=${at}`, '×', 0.6, 0.3, ratio('add_sub', transport, at, 'cpuUs'))
  }
  for (const at of [16, 64]) {
    add(
      `CPU of a bare node:http echo to that of Galatea, identity, c=${at}`,
      '×',
      1.5,
      1.5,
      echoRatio(results, at),
      true,
    )
  }
  add('dynamic batching, c=64, a model that gains from it', '×', 2, 3.5, batchingGain(results), true)
  add('ready with one ONNX model', 's', 0.5, 0.3, seriesMedian(results, 'ready s, ONNX'))
  add('ready with one Python model', 's', 0.8, 0.5, seriesMedian(results, 'ready s, Python'))
  add('idle memory, one ONNX model', 'MB', 120, 80, inMegabytes(seriesMedian(results, 'idle MiB, ONNX')))
  return rows
}

function verdictOf(value: number, floor: number, goal: number, isAtLeast: boolean): Verdict {
  if (Number.isNaN(value)) return 'not measured'
  const reaches = (limit: number): boolean => (isAtLeast ? value >= limit : value <= limit)
  return reaches(goal) ? 'goal' : reaches(floor) ? 'met' : 'missed'
}

/** Live where a Triton ran it beside; else against its recorded figure, scaled by how it does here today. */
function comparedWithTriton(
  results: SuiteResults,
  workload: string,
  transport: Transport,
  at: number,
  measure: Measure,
): Compared {
  const found = findCase(results, workload, transport, at)
  const ours = medianFigure(found, galateaName, measure)
  if (Number.isNaN(ours)) return { value: NaN, basis: '' }
  const live = [tritonName, tritonPairName].flatMap((subject) => ratiosTo(found, subject, measure))
  if (live.length > 0) {
    // Against the better of the two.
    const value = Math.max(...live)
    return { value, basis: `Galatea ${shown(ours, measure)}, Triton ${shown(ours / value, measure)}, side by side` }
  }
  const anchor = anchorOf(workload, transport, at, measure)
  if (anchor === null) return { value: NaN, basis: 'no Triton to compare with' }
  const { factor, text } = scaleOf(results, measure)
  return {
    value: ours / (anchor * factor),
    basis: `Galatea ${shown(ours, measure)}, Triton ${shown(anchor, measure)} as recorded${text}`,
  }
}

function ratiosTo(found: CaseResult | undefined, subject: string, measure: Measure): number[] {
  const [ours, theirs] = [runsOf(found, galateaName), runsOf(found, subject)]
  if (theirs.length === 0) return []
  return [
    medianOf(
      ours
        .map((run, round) => run[measure] / (theirs[round]?.[measure] ?? NaN))
        .filter((ratio) => !Number.isNaN(ratio)),
    ),
  ]
}

function anchorOf(workload: string, transport: Transport, at: number, measure: Measure): number | null {
  const row = tritonAnchors[workload]
  // JSON costs it 0.8 to 1.15 times what binary does.
  const found: AnchorCell | undefined = row?.[transport === 'grpc' ? 'grpc' : 'binary'][at]
  if (found === undefined || transport === 'shared-memory') return null
  if (measure === 'p50Us') return found.p50Ms * 1000
  if (measure === 'p99Us') return found.p99Ms * 1000
  return transport === 'grpc' && at > 1 ? Math.min(found.cpuUs, tritonPairGrpcCpuUs) : found.cpuUs
}

function scaleOf(results: SuiteResults, measure: Measure): { readonly factor: number; readonly text: string } {
  const at = measure === 'p50Us' ? 1 : 64
  const now = medianFigure(findCase(results, 'add_sub', 'binary', at), tritonName, measure)
  const then = anchorOf('add_sub', 'binary', at, measure)
  if (Number.isNaN(now) || then === null) return { factor: 1, text: ' on another machine' }
  return { factor: now / then, text: ` × ${(now / then).toFixed(2)}, what its add_sub takes here against there` }
}

const shown = (us: number, measure: Measure): string =>
  measure === 'cpuUs' ? `${us.toFixed(0)} µs` : `${(us / 1000).toFixed(us < 10_000 ? 2 : 1)} ms`

function batchingGain(results: SuiteResults): Compared {
  const [batched, alone] = (['wide-batched', 'wide-alone'] as const).map((workload) =>
    medianFigure(findCase(results, workload, 'binary', 64), galateaName, 'perSecond'),
  ) as [number, number]
  if (Number.isNaN(batched / alone)) return { value: NaN, basis: '' }
  return { value: batched / alone, basis: `${batched.toFixed(0)} infer/s batched, ${alone.toFixed(0)} one by one` }
}

/** The echo reads a body and sends it back; Galatea also runs the model. */
function echoRatio(results: SuiteResults, at: number): Compared {
  const found = findCase(results, 'identity', 'binary', at)
  const [echo, ours] = [medianFigure(found, echoName, 'cpuUs'), medianFigure(found, galateaName, 'cpuUs')]
  const value = ratiosTo(found, echoName, 'cpuUs')[0] ?? NaN
  return {
    value: 1 / value,
    basis: Number.isNaN(value) ? '' : `echo ${shown(echo, 'cpuUs')}, Galatea ${shown(ours, 'cpuUs')}`,
  }
}

function seriesMedian({ series }: SuiteResults, what: SuiteResults['series'][number]['what']): Compared {
  const of = (subject: string): number => {
    const found = series.find((each) => each.what === what && each.subject === subject)
    return found === undefined || found.values.length === 0 ? NaN : medianOf(found.values)
  }
  const triton = of(tritonName)
  return { value: of(galateaName), basis: Number.isNaN(triton) ? '' : `Triton ${triton.toFixed(2)}` }
}

const inMegabytes = ({ value, basis }: Compared): Compared => ({ value: value * 1.048576, basis })

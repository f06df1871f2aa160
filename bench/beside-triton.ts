// One load on Galatea and, in turn, on a real Triton where there is one.

import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import type { Subject } from './subjects.ts'

const warmUpFactor = 10

type Target = NonNullable<Figure['target']>
export type Measure = { readonly what: string; readonly of: (run: LoadMeasurement) => number; readonly target: Target }

const describe = (run: readonly LoadMeasurement[]): string => {
  const median = (of: (one: LoadMeasurement) => number): number => medianOf(run.map(of))
  return (
    `${median((one) => one.cpuUsPerRequest).toFixed(0)} µs CPU, ${median((one) => one.requestsPerSecond).toFixed(0)}/s, ` +
    `p50 ${(median((one) => one.p50Us) / 1000).toFixed(2)} ms, p99 ${(median((one) => one.p99Us) / 1000).toFixed(2)} ms`
  )
}

export type BenchSettings = Parameters<Bench['run']>[0]

/** Measures one load on Galatea, and in turn on Triton where there is one. */
export const compareWithTriton = async (
  { rounds, secondsPerRun, say }: BenchSettings,
  subjects: { readonly galatea: Subject; readonly triton: Subject | null },
  load: { readonly what: string; readonly connections: number; readonly request: Buffer; readonly atLeast: number },
  measures: readonly Measure[],
): Promise<Figure[]> => {
  const { what, connections, request, atLeast } = load
  await using ourLoad = await HttpLoad.open(subjects.galatea, connections, request)
  await using tritonLoad = subjects.triton && (await HttpLoad.open(subjects.triton, connections, request))
  await ourLoad.run(secondsPerRun, atLeast * warmUpFactor)
  await tritonLoad?.run(secondsPerRun, atLeast)
  const run = async (of: HttpLoad | null): Promise<LoadMeasurement | null> =>
    of && (await of.run(secondsPerRun, atLeast))
  const measured = await alternate(rounds, { ours: () => run(ourLoad), theirs: () => run(tritonLoad) })
  const ours = measured.ours.filter((one) => one !== null)
  const theirs = measured.theirs.filter((one) => one !== null)
  const detail = `Galatea ${describe(ours)}${theirs.length === 0 ? '' : `; Triton ${describe(theirs)}`}`
  say(`${what}: ${detail}`)
  if (theirs.length === 0) {
    const cpu = medianOf(ours.map((one) => one.cpuUsPerRequest))
    return [{ what: `CPU of all processes: ${what}`, value: cpu, unit: 'µs', target: null, detail }]
  }
  return measures.map(({ what: name, of, target }, index) => ({
    what: `${name}: ${what}`,
    value: medianRatio(ours, theirs, of),
    unit: '×',
    target,
    detail: index === 0 ? detail : '',
  }))
}

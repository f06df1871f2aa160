// What something costs a server: its throughput on `simple` with it against that without.

import { setTimeout as pause } from 'node:timers/promises'
import { exampleModels, startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, medianRatio, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { simpleRequest } from './infer-request.ts'
import { onCore } from './pinning.ts'

const connections = 16
/** Code that is seldom run, as that of a traced request, makes V8 compile the rest anew once or twice: that must be over. */
const warmUpRequests = 100_000
/** Code under compilation is finished sooner by a server that has nothing else to do: both have the time. */
const settleMs = 1000

const startSimple = (flags: readonly string[]): Promise<ServerProcess> =>
  startServerProcess(
    [`--model-repository=${exampleModels}`, '--model-control-mode=explicit', '--load-model=simple', ...flags],
    { prefix: onCore(0) },
  )

export type Meanwhile = (server: ServerProcess) => Promise<AsyncDisposable>

type Cost = {
  readonly what: string
  readonly target: Figure['target']
  readonly rounds: number
  readonly seconds: number
}

/**
 * Two fresh servers for each round: two processes of the same program differ for as long as they live, by the luck of where
 * their code and memory lie, which is more than what is to be seen.
 */
export async function costOfFlags(
  cost: Cost,
  on: readonly string[],
  off: readonly string[],
  meanwhile: Meanwhile | null = null,
): Promise<Figure[]> {
  const measure = async (flags: readonly string[], during: Meanwhile | null): Promise<LoadMeasurement> => {
    await using server = await startSimple(flags)
    await using load = await HttpLoad.open(server, connections, simpleRequest('binary'))
    await load.run(2, warmUpRequests)
    await using _ = await during?.(server)
    await pause(settleMs)
    return await load.run(cost.seconds)
  }
  const runs = await alternate(cost.rounds, { on: () => measure(on, meanwhile), off: () => measure(off, null) })
  return figuresOf(cost, runs)
}

/** One server, in which it is switched on and off: its luck is the same for both. */
export async function costOfSwitch(
  cost: Cost,
  flags: readonly string[],
  set: (server: ServerProcess, isOn: boolean) => Promise<void>,
): Promise<Figure[]> {
  await using server = await startSimple(flags)
  await using load = await HttpLoad.open(server, connections, simpleRequest('binary'))
  for (const isOn of [false, true]) {
    await set(server, isOn)
    await load.run(2, warmUpRequests)
  }
  const measure = async (isOn: boolean): Promise<LoadMeasurement> => {
    await set(server, isOn)
    return await load.run(cost.seconds)
  }
  const runs = await alternate(cost.rounds, { on: () => measure(true), off: () => measure(false) })
  return figuresOf(cost, runs)
}

function figuresOf({ what, target }: Cost, { on, off }: Record<'on' | 'off', readonly LoadMeasurement[]>): Figure[] {
  const detail = `simple, binary, c=${connections}: on ${textOf(on)}; off ${textOf(off)}`
  return [
    { what: `throughput: ${what}, against none`, value: medianRatio(on, off, rateOf), unit: '×', target, detail },
    {
      what: `CPU per request: ${what}, against none`,
      value: medianRatio(on, off, cpuOf),
      unit: '×',
      target: null,
      detail: '',
    },
  ]
}

const rateOf = (run: LoadMeasurement): number => run.requestsPerSecond
const cpuOf = (run: LoadMeasurement): number => run.cpuUsPerRequest

const textOf = (runs: readonly LoadMeasurement[]): string =>
  `${medianOf(runs.map(rateOf)).toFixed(0)}/s, ${medianOf(runs.map(cpuOf)).toFixed(1)} µs CPU`

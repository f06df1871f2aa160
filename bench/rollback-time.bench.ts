// How long a bad version keeps its requests: from the fault to the weight 0, at 200 requests a second and 5 % of them. Twenty
// runs in virtual time, of the sums and the judge alone: requests fall to the candidate by chance, and the finding is the end. And some
// with a real server under load, with everything. And what callers feel of a shadow that is five seconds slow.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { RandomDraws } from '../src/rollouts/assignment.ts'
import { Evidence } from '../src/rollouts/judge/evidence.ts'
import { judgeRollout } from '../src/rollouts/judge/judge-rollout.ts'
import { readRolloutFile } from '../src/rollouts/rollout-file.ts'
import type { RolloutPlan } from '../src/rollouts/rollout-plan.ts'
import { startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, type Bench, type Figure } from './bench.ts'
import { inferRequest } from './infer-request.ts'
import { OpenHttpLoad, quantile } from './open-http-load.ts'

const perSecond = 200
const share = 0.05
const runs = 20

type Fault = {
  readonly what: string
  readonly errorRate: number
  readonly slowness: number
  readonly mostSeconds: number
  /** The same for a real server whose model takes 20 ms. */
  readonly injected: object
}

const abort = { code: 'INTERNAL', message: 'injected' }
const faults: readonly Fault[] = [
  { what: '1 → 50 % errors', errorRate: 0.5, slowness: 1, mostSeconds: 3, injected: { share: 50, abort } },
  { what: '1 → 5 % errors', errorRate: 0.05, slowness: 1, mostSeconds: 20, injected: { share: 5, abort } },
  { what: 'p99 × 1.5', errorRate: 0.01, slowness: 1.5, mostSeconds: 20, injected: { share: 100, delay_ms: 10 } },
]

/** Seconds from the fault to the finding. The fault begins in the middle of a tick, `healthySeconds` after the first request. */
function playVirtual({ errorRate, slowness }: Fault, healthySeconds: number, seed: number): number {
  const plan = readRolloutFile({ kind: 'rollout' }, () => null).plan as RolloutPlan
  const draws = new RandomDraws(seed)
  const evidence = new Evidence(plan.judge.metrics, {}, draws.share, 0)
  const faultAt = healthySeconds + draws.share()
  for (let second = 1; second < healthySeconds + 600; second++) {
    for (let i = 0; i < perSecond; i++) {
      const isCandidate = draws.share() < share
      const isBad = isCandidate && second - 1 + i / perSecond >= faultAt
      const normal = Math.sqrt(-2 * Math.log(1 - draws.share())) * Math.cos(2 * Math.PI * draws.share())
      evidence.addRequest(isCandidate ? 'candidate' : 'stable', {
        isError: draws.share() < (isBad ? errorRate : 0.01),
        bucket: null,
        latencyMs: 20 * Math.exp(normal / 4) * (isBad ? slowness : 1),
        firstResponseMs: NaN,
        computeSecondsPerRow: NaN,
        tokensPerSecond: NaN,
      })
    }
    evidence.tick(second * 1e9, true)
    if (judgeRollout(plan.judge.metrics, evidence.sums(), plan.judge.alpha).worse !== null) return second - faultAt
  }
  return Infinity
}

function virtualFigures(): Figure[] {
  return faults.map((fault) => {
    const after = (healthy: number): number =>
      medianOf(Array.from({ length: runs }, (_, i) => playVirtual(fault, healthy, 7 * i + 1)))
    const later = [10, 60, 600].map((healthy) => `after ${healthy} s without a fault ${after(healthy).toFixed(1)} s`)
    return {
      what: `virtual time, ${fault.what} from the first request on: to 0 %`,
      value: after(0),
      unit: 's',
      target: { kind: 'at most', value: fault.mostSeconds },
      detail: `median of ${runs}; ${later.join(', ')}`,
    }
  })
}

const configOf = (ms: number): string => `backend: "identity"
instance_group { kind: KIND_CPU count: 16 }
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
version_policy { all { } }
parameters { key: "execute_delay_ms" value { string_value: "${ms}" } }
`

async function serve(): Promise<AsyncDisposable & { readonly server: ServerProcess }> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-rollback-'))
  for (const version of ['1', '2']) await mkdir(path.join(root, 'models/m', version), { recursive: true })
  await mkdir(path.join(root, 'models/slow/1'), { recursive: true })
  await writeFile(path.join(root, 'models/m/config.pbtxt'), configOf(20))
  await writeFile(path.join(root, 'models/slow/config.pbtxt'), configOf(5000))
  const flags = [`--model-repository=${root}/models`, `--state-dir=${root}/state`, '--allow-fault-injection']
  const server = await startServerProcess(flags)
  return {
    server,
    [Symbol.asyncDispose]: async () => {
      await server.stop()
      await rm(root, { recursive: true, force: true })
    },
  }
}

async function call(server: ServerProcess, target: string, body: object): Promise<unknown> {
  const answer = await fetch(`${server.url}${target}`, { method: 'POST', body: JSON.stringify(body) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${target}: ${answer.status} ${text}`)
  return JSON.parse(text)
}

type Shown = { readonly state: string; readonly history: readonly { readonly state: string; readonly at: string }[] }

async function begin(server: ServerProcess, body: object): Promise<string> {
  const { name } = (await call(server, '/v2/rollouts', { model: 'm', stable: 1, candidate: 2, retry: true, ...body })) as { readonly name: string } // prettier-ignore
  await waitFor(server, name, ({ state }) => state === 'RUNNING')
  return name
}

async function waitFor(server: ServerProcess, name: string, isSo: (shown: Shown) => boolean): Promise<Shown> {
  for (;;) {
    const shown = (await (await fetch(`${server.url}/v2/rollouts/${name}`)).json()) as Shown
    if (isSo(shown)) return shown
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

const tensor = { name: 'INPUT0', datatype: 'FP32', shape: [16], values: new Float32Array(16) }
const openLoad = (server: ServerProcess): Promise<OpenHttpLoad> =>
  OpenHttpLoad.open(server.port, 64, inferRequest('m', [tensor], 'binary'))

/** Seconds from the injection to the moment that the weight went to 0. */
async function playReal(server: ServerProcess, fault: Fault): Promise<number> {
  const name = await begin(server, { steps: [{ weight: 100 * share, for: '1h' }] })
  using load = await openLoad(server)
  const loaded = load.run(perSecond, 2)
  await loaded
  const injected = { model: 'm', arm: 'candidate', for: '10m', judge: true, ...fault.injected }
  const { id } = (await call(server, '/v2/faults', injected)) as { readonly id: string }
  const faultMs = Date.now()
  const until = { isOver: false }
  const under = (async () => {
    while (!until.isOver) await load.run(perSecond, 1)
  })()
  const { history } = await waitFor(server, name, ({ state }) => state.startsWith('ROLL'))
  until.isOver = true
  await under
  await call(server, `/v2/faults/${id}/cancel`, {})
  await waitFor(server, name, ({ state }) => state === 'ROLLED_BACK')
  const back = history.find(({ state }) => state === 'ROLLING_BACK')
  return (Date.parse(back?.at ?? '') - faultMs) / 1000
}

async function realFigures(server: ServerProcess, rounds: number, say: (line: string) => void): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const fault of faults) {
    const seconds: number[] = []
    for (let round = 0; round < rounds; round++) seconds.push(await playReal(server, fault))
    say(`${fault.what}: ${seconds.map((each) => each.toFixed(1)).join(', ')} s`)
    const detail = `${rounds} runs with a real server: ${seconds.map((each) => each.toFixed(1)).join(', ')} s`
    figures.push({ what: `real server, ${fault.what}: to 0 %`, value: medianOf(seconds), unit: 's', target: null, detail }) // prettier-ignore
  }
  return figures
}

/** The p99 of callers beside a shadow of all requests that is slowed by five seconds, to that without a shadow and beside a quick one. */
async function shadowFigure(server: ServerProcess, rounds: number, seconds: number): Promise<Figure> {
  using load = await openLoad(server)
  const answers = async (): Promise<readonly number[]> => {
    // What a rollout does at its begin is not what a shadow does.
    await load.run(perSecond, 2)
    return (await load.run(perSecond, seconds)).okMs
  }
  const beside = (candidate: number | object) => async (): Promise<readonly number[]> => {
    const steps = [{ shadow: 100, for: '1h' }]
    const name = await begin(server, { candidate, steps, judge: { metrics: { errors: {} } } })
    const measured = await answers()
    await call(server, `/v2/rollouts/${name}/rollback`, {})
    await waitFor(server, name, ({ state }) => state === 'ROLLED_BACK')
    return measured
  }
  const slow = beside({ model: 'slow', version: 1 })
  const measured = await alternate(rounds, { none: answers, quick: beside(2), slow })
  const p99 = (of: readonly (readonly number[])[]): number => quantile(of.flat(), 0.99)
  const [none, quick, slowed] = [p99(measured.none), p99(measured.quick), p99(measured.slow)]
  const detail = `p99 ${slowed.toFixed(2)} ms beside the slow shadow, ${quick.toFixed(2)} ms beside one of 20 ms, ${none.toFixed(2)} ms without`
  return { what: 'p99 beside a shadow that is 5 s slow, to that without', value: slowed / none, unit: '×', target: { kind: 'at most', value: 1.02 }, detail } // prettier-ignore
}

export const bench: Bench = {
  name: 'rollback-time',
  summary: 'from a fault of a new version to the weight 0, and what callers feel of a slow shadow',
  async run({ rounds, secondsPerRun, say }) {
    const figures = virtualFigures()
    await using opened = await serve()
    const { server } = opened
    const shadow = await shadowFigure(server, rounds, Math.max(4, secondsPerRun))
    return [...figures, ...(await realFigures(server, Math.min(3, rounds), say)), shadow]
  },
}

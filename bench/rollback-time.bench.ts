// How long a bad version keeps its requests: from the fault to the weight 0, at 200 requests a second and 5 % of them. Twenty
// runs in virtual time, of the sums and the judge alone: requests fall to the candidate by chance, and the finding is the end. And
// twenty with a real server under load, with everything: five models at the same time, four times.

import { RandomDraws } from '../src/rollouts/assignment.ts'
import { Evidence } from '../src/rollouts/judge/evidence.ts'
import { judgeRollout } from '../src/rollouts/judge/judge-rollout.ts'
import { readRolloutFile } from '../src/rollouts/rollout-file.ts'
import type { RolloutPlan } from '../src/rollouts/rollout-plan.ts'
import { medianOf, type Bench, type BenchSettings, type Figure } from './bench.ts'
import { serveRollouts, type RolloutServer } from './rollout-server.ts'

const perSecond = 200
const share = 0.05
/** In virtual time, and, in five rounds, with a real server. */
const runs = 20
const batchesPerRound = 0.8

type Fault = {
  readonly what: string
  readonly errorRate: number
  readonly slowness: number
  readonly mostSeconds: number
  /** The same for a real server whose model takes 20 ms, and where one request in a hundred fails on both versions. */
  readonly injected: object
}

const abort = { code: 'INTERNAL', message: 'injected' }
const faults: readonly Fault[] = [
  { what: '1 → 50 % errors', errorRate: 0.5, slowness: 1, mostSeconds: 3, injected: { share: 49.5, abort } },
  { what: '1 → 5 % errors', errorRate: 0.05, slowness: 1, mostSeconds: 20, injected: { share: 4.05, abort } },
  { what: 'p99 × 1.5', errorRate: 0.01, slowness: 1.5, mostSeconds: 20, injected: { share: 100, delay_ms: 10 } },
]

/** Seconds from the fault to the finding. The fault begins in the middle of a tick, `healthySeconds` after the first request, or a little later: tests that begin anew at full minutes must have no luck. */
function playVirtual({ errorRate, slowness }: Fault, healthySeconds: number, seed: number): number {
  const plan = readRolloutFile({ kind: 'rollout' }, () => null).plan as RolloutPlan
  const draws = new RandomDraws(seed)
  const evidence = new Evidence(plan.judge.metrics, {}, draws.share, 0)
  const faultAt = healthySeconds * (1 + 0.1 * draws.share()) + draws.share()
  for (let second = 1; second < faultAt + 600; second++) {
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
    const later = [60, 600].map((healthy) => `after ${healthy} s without a fault ${after(healthy).toFixed(1)} s`)
    return {
      what: `virtual time, ${fault.what} from the first request on: to 0 %`,
      value: after(0),
      unit: 's',
      target: { kind: 'at most', value: fault.mostSeconds },
      detail: `median of ${runs}; ${later.join(', ')}`,
    }
  })
}

/** Each has a rollout of its own at the same time. */
const models = ['m0', 'm1', 'm2', 'm3', 'm4']

/** Seconds from the injection to the moment that the weight went to 0. All rollouts of a server are judged in the same moment of a second: the faults of several models must not fall into one moment too. */
async function playReal(server: RolloutServer, model: string, fault: Fault, healthySeconds: number): Promise<number> {
  const shared = { model, for: '10m', judge: true }
  const usual = await server.call<{ readonly id: string }>('/v2/faults', {
    ...shared,
    share: 1,
    abort: { code: 'UNAVAILABLE' },
  })
  const name = await server.begin(model, { steps: [{ weight: 100 * share, for: '1h' }] })
  using load = await server.load(model)
  await load.run(perSecond, healthySeconds)
  const injected = { ...shared, arm: 'candidate', ...fault.injected }
  const { id } = await server.call<{ readonly id: string }>('/v2/faults', injected)
  const faultMs = Date.now()
  const until = { isOver: false }
  const under = (async () => {
    while (!until.isOver) await load.run(perSecond, 1)
  })()
  const { history } = await server.waitFor(name, ({ state }) => state.startsWith('ROLL'))
  until.isOver = true
  await under
  for (const each of [id, usual.id]) await server.call(`/v2/faults/${each}/cancel`, {})
  await server.waitFor(name, ({ state }) => state === 'ROLLED_BACK')
  const back = history.find(({ state }) => state === 'ROLLING_BACK')
  return (Date.parse(back?.at ?? '') - faultMs) / 1000
}

async function realFigures(server: RolloutServer, { rounds, say }: BenchSettings): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const fault of faults) {
    const seconds: number[] = []
    for (let batch = 0; batch < batchesPerRound * rounds; batch++) {
      seconds.push(
        ...(await Promise.all(models.map((model, i) => playReal(server, model, fault, 2 + i / models.length)))),
      )
    }
    const detail = `${seconds.length} runs with a real server: ${seconds.map((each) => each.toFixed(1)).join(', ')} s`
    say(`${fault.what}: ${detail}`)
    figures.push({
      what: `real server, ${fault.what}: to 0 %`,
      value: medianOf(seconds),
      unit: 's',
      target: { kind: 'at most', value: fault.mostSeconds },
      detail,
    })
  }
  return figures
}

export const bench: Bench = {
  name: 'rollback-time',
  summary: 'from a fault of a new version to the weight 0: medians of 20 runs, in virtual time and with a real server',
  async run(settings) {
    const figures = virtualFigures()
    for (const { what, detail } of figures) settings.say(`${what}: ${detail}`)
    await using server = await serveRollouts(models)
    return [...figures, ...(await realFigures(server, settings))]
  },
}

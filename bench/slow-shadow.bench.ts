// What callers feel of a shadow of all requests that is slowed by five seconds: their p99 beside it, to that without a shadow. Short
// runs take turns, and neighbours in time are compared, because what a machine does meanwhile is more than two per cent.

import { alternate, medianOf, medianRatio, type Bench } from './bench.ts'
import { quantile } from './open-http-load.ts'
import { serveRollouts } from './rollout-server.ts'

const perSecond = 200
/** One turn of a few seconds has some dozen requests beyond its p99, so there are more turns, and longer ones, than elsewhere. */
const turnsPerRound = 2
const secondsPerSecond = 5

const p99 = (ms: readonly number[]): number => quantile(ms, 0.99)

export const bench: Bench = {
  name: 'slow-shadow',
  summary: 'p99 of callers beside a shadow that is 5 s slow, to that without a shadow',
  async run({ rounds, secondsPerRun, say }) {
    await using server = await serveRollouts(['m'])
    using load = await server.load('m')
    await load.run(perSecond, 5)
    const answers = async (): Promise<readonly number[]> => {
      // What a rollout does at its begin is not what a shadow does.
      await load.run(perSecond, 2)
      return (await load.run(perSecond, secondsPerSecond * secondsPerRun)).okMs
    }
    const beside = (candidate: number | object) => async (): Promise<readonly number[]> => {
      const steps = [{ shadow: 100, for: '1h' }]
      const name = await server.begin('m', { candidate, steps, judge: { metrics: { errors: {} } } })
      const measured = await answers()
      await server.call(`/v2/rollouts/${name}/rollback`, {})
      await server.waitFor(name, ({ state }) => state === 'ROLLED_BACK')
      return measured
    }
    const subjects = { none: answers, quick: beside(2), slow: beside({ model: 'slow', version: 1 }) }
    const { none, quick, slow } = await alternate(turnsPerRound * rounds, subjects)
    const ms = (of: readonly (readonly number[])[]): string => `${medianOf(of.map(p99)).toFixed(2)} ms`
    const detail = `p99 ${ms(slow)} beside the slow shadow, ${ms(quick)} beside one of 20 ms, ${ms(none)} without; medians of ${none.length} turns`
    say(detail)
    const figure = { value: medianRatio(slow, none, p99), unit: '×', target: { kind: 'at most', value: 1.02 }, detail } as const // prettier-ignore
    return [
      { what: 'p99 beside a shadow that is 5 s slow, to that without', ...figure },
      { what: 'p99 beside a shadow of 20 ms, to that without', ...figure, value: medianRatio(quick, none, p99), target: null }, // prettier-ignore
    ]
  },
}

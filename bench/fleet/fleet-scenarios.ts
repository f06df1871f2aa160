// What happens to a fleet in the simulation, with the service times that the suite of benches measured for ResNet-50.

import { Random } from '../../test/scenario/random.ts'
import { simulateFleet, type FleetPlan, type Policy } from './simulate-fleet.ts'

export const sizes = [10, 100, 1000, 10_000]

/** Median and p99 of one ResNet-50 inference with one client, in bench/results/suite.json. */
const [medianMs, p99Ms] = [75.9, 119.5]
const sigma = Math.log(p99Ms / medianMs) / 2.326
const meanServiceMs = medianMs * Math.exp((sigma * sigma) / 2)

/** A normal number from two even ones. */
const normal = (random: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())

type Scenario = Partial<FleetPlan> & { readonly load: number }

export const fleetScenarios = {
  /** A tenth of the servers takes three times as long. */
  'slow servers': { load: 0.6, slowness: (server) => (server % 10 === 0 ? 3 : 1) },
  /** One tenth after the other is away for a tenth of the time. */
  'rolling update': {
    load: 0.6,
    absences: (server, totalMs) => [(0.1 + 0.08 * (server % 10)) * totalMs, (0.18 + 0.08 * (server % 10)) * totalMs],
  },
  /** A third of the servers dies at half of the time, with what it had under way. */
  'zone loss': {
    load: 0.5,
    losesWork: true,
    absences: (server, totalMs) => (server % 3 === 0 ? [0.5 * totalMs, Infinity] : null),
  },
  'retry storm': { load: 0.9, retries: 3, burst: [0.2, 0.6, 3] },
  /** Models load when a server is first asked for one. */
  'cold start': { load: 0.3, lazyModels: { count: 20, loadMs: 2000, prefersLoaded: true } },
} satisfies Readonly<Record<string, Scenario>> as Readonly<Record<ScenarioName, Scenario>>

type ScenarioName = 'slow servers' | 'rolling update' | 'zone loss' | 'retry storm' | 'cold start'

export function runScenario(scenario: Scenario, policy: Policy, servers: number): ReturnType<typeof simulateFleet> {
  const source = new Random(servers, policy.length)
  const random = (): number => source.int(2 ** 30) / 2 ** 30
  const serviceMs = (draw: () => number): number => medianMs * Math.exp(sigma * normal(draw))
  const requests = Math.min(400_000, Math.max(40_000, servers * 100))
  return simulateFleet({ servers, requests, policy, serviceMs, meanServiceMs, ...scenario }, random)
}

// Draws the figures of docs/internals/fleet-simulation.md and prints its tables: `npx node bench/fleet/draw-fleet.ts`. Virtual time: the machine does
// not matter, and every run gives the same.

import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { lineChart } from '../../src/perf/svg-chart.ts'
import { fleetScenarios, runScenario, sizes } from './fleet-scenarios.ts'
import { policies } from './simulate-fleet.ts'

const folder = path.join(import.meta.dirname, '../../docs/internals/figures')
const round = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toPrecision(3))

for (const name of ['slow servers', 'rolling update', 'zone loss', 'cold start'] as const) {
  console.log(
    `\n| ${name}: p99 in ms (failed) | ${sizes.join(' servers | ')} servers |\n|---|${'---|'.repeat(sizes.length)}`,
  )
  const series = policies.map((policy) => {
    const outcomes = sizes.map((servers) => runScenario(fleetScenarios[name], policy, servers))
    const cells = outcomes.map(({ p99Ms, failed }) => `${round(p99Ms)}${failed > 0 ? ` (${(failed * 100).toFixed(2)} %)` : ''}`) // prettier-ignore
    console.log(`| ${policy} | ${cells.join(' | ')} |`)
    return { name: policy, points: sizes.map((servers, i) => [servers, outcomes[i]?.p99Ms ?? 0] as const) }
  })
  const file = `fleet-${name.replaceAll(' ', '-')}.svg`
  const chart = lineChart({
    title: `Fleet on paper: ${name}`,
    x: { label: 'servers', isLogarithmic: true },
    y: { label: 'p99, milliseconds', isLogarithmic: true },
    series,
    note: 'npx node bench/fleet/draw-fleet.ts, virtual time',
  })
  writeFileSync(path.join(folder, file), chart)
}

console.log(
  '\n| retry storm, 100 servers: 3 × the load for a while | failed | repeats per request | p99 in ms |\n|---|---|---|---|',
)
for (const retryBudget of [0, 0.1, 0.2, 0.5, 1, 1000]) {
  const { failed, repeats, p99Ms } = runScenario({ ...fleetScenarios['retry storm'], retryBudget }, 'power of two with pressure', 100) // prettier-ignore
  const label = retryBudget === 1000 ? 'no budget' : `budget ${retryBudget * 100} %`
  console.log(`| ${label} | ${(failed * 100).toFixed(1)} % | ${repeats.toFixed(2)} | ${round(p99Ms)} |`)
}

console.log('\n| cold start, 100 servers, 200 lazy models | loads | p50 in ms | p99 in ms |\n|---|---|---|---|')
for (const prefersLoaded of [false, true]) {
  const lazyModels = { count: 200, loadMs: 2000, prefersLoaded }
  const { loads, p50Ms, p99Ms } = runScenario({ ...fleetScenarios['cold start'], lazyModels }, 'power of two with pressure', 100) // prettier-ignore
  console.log(
    `| ${prefersLoaded ? 'servers that have the model first' : 'any server'} | ${loads} | ${round(p50Ms)} | ${round(p99Ms)} |`,
  )
}

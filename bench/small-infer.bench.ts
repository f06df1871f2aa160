// Small requests over real sockets: what Galatea costs per inference beside a node:http server that only echoes.

import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { identityRequest, simpleRequest } from './infer-request.ts'
import { startBareEcho, startGalateaWithModels } from './subjects.ts'

const concurrencies = [16, 1, 64]
/** Before they are measured, both servers answer so many: V8 compiles in steps, and the last one comes late. */
const warmUpRequests = 50_000
// Most clients send the same head again and again; with ids every head is another, and has to be read anew.
const withIds = Array.from({ length: 1000 }, (_, index) => simpleRequest('binary', `request-${index}`))
const cases: readonly (readonly [model: string, form: string, requests: readonly Buffer[]])[] = [
  ['simple', 'binary', [simpleRequest('binary')]],
  ['simple', 'binary with ids', withIds],
  ['simple', 'json', [simpleRequest('json')]],
  ['identity', 'binary', [identityRequest(16, 'binary')]],
  ['identity', 'json', [identityRequest(16, 'json')]],
]

const cpu = (measured: LoadMeasurement): number => measured.cpuUsPerRequest
const rate = (measured: LoadMeasurement): number => measured.requestsPerSecond

export const bench: Bench = {
  name: 'small-infer',
  summary: 'CPU per small inference and throughput, as ratios to a bare node:http echo of the same bytes',
  async run({ rounds, secondsPerRun, say }) {
    await using galatea = await startGalateaWithModels()
    await using bare = await startBareEcho()
    const figures: Figure[] = []
    for (const [model, form, requests] of cases) {
      for (const connections of concurrencies) {
        await using ourLoad = await HttpLoad.open(galatea, connections, ...requests)
        await using bareLoad = await HttpLoad.open(bare, connections, ...requests)
        const isFirst = connections === concurrencies[0]
        for (const load of [ourLoad, bareLoad]) await load.run(isFirst ? 2 : 0.2, isFirst ? warmUpRequests : 1)
        const { ours, theirs } = await alternate(rounds, {
          ours: () => ourLoad.run(secondsPerRun),
          theirs: () => bareLoad.run(secondsPerRun),
        })
        const what = `${model}, ${form}, c=${connections}`
        const describe = (name: string, runs: readonly LoadMeasurement[]): string =>
          `${name} ${medianOf(runs.map(cpu)).toFixed(0)} µs CPU, ${medianOf(runs.map(rate)).toFixed(0)}/s, ` +
          `p50 ${(medianOf(runs.map((run) => run.p50Us)) / 1000).toFixed(2)} ms, ` +
          `p99 ${(medianOf(runs.map((run) => run.p99Us)) / 1000).toFixed(2)} ms`
        const detail = `${describe('Galatea', ours)}; ${describe('bare', theirs)}`
        const isHeld = model === 'simple' && form === 'binary'
        const target: Figure['target'] = isHeld ? { kind: 'at most', value: 1.3 } : null
        figures.push({ what: `CPU: ${what}`, value: medianRatio(ours, theirs, cpu), unit: '×', target, detail })
        const throughput = medianRatio(ours, theirs, rate)
        figures.push({ what: `throughput: ${what}`, value: throughput, unit: '×', target: null, detail: '' })
        say(`${what}: ${detail}`)
      }
    }
    return figures
  },
}

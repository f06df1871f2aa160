// 16 MiB of FP32 as binary data, there and back, one at a time.

import { alternate, medianOf, medianRatio, type Bench } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { identityRequest } from './infer-request.ts'
import { startBareEcho, startGalateaWithModels } from './subjects.ts'

const elements = 4 * 1024 * 1024
const tensorBytes = elements * 4

export const bench: Bench = {
  name: 'large-tensor',
  summary: '16 MiB FP32 binary round trip through identity',
  async run({ rounds, secondsPerRun, say }) {
    await using galatea = await startGalateaWithModels()
    await using bare = await startBareEcho()
    const request = identityRequest(elements, 'binary')
    await using ourLoad = await HttpLoad.open(galatea, 1, request)
    await using bareLoad = await HttpLoad.open(bare, 1, request)
    await ourLoad.run(secondsPerRun, 5)
    await bareLoad.run(secondsPerRun, 5)
    const { ours, theirs } = await alternate(rounds, {
      ours: () => ourLoad.run(secondsPerRun, 10),
      theirs: () => bareLoad.run(secondsPerRun, 10),
    })
    const gbPerSecond = (run: LoadMeasurement): number => (2 * tensorBytes) / 1e9 / (run.p50Us / 1e6)
    const millis = medianOf(ours.map((run) => run.p50Us / 1000))
    const bareGb = medianOf(theirs.map(gbPerSecond))
    const detail = `${millis.toFixed(1)} ms per round trip; bare node:http echo ${bareGb.toFixed(2)} GB/s`
    say(detail)
    const cpu = (run: LoadMeasurement): number => run.cpuUsPerRequest
    const cpuDetail = `Galatea ${(medianOf(ours.map(cpu)) / 1000).toFixed(1)} ms, bare ${(medianOf(theirs.map(cpu)) / 1000).toFixed(1)} ms`
    return [
      {
        what: '16 MiB there and back, bytes moved per second',
        value: medianOf(ours.map(gbPerSecond)),
        unit: 'GB/s',
        target: { kind: 'at least', value: 1 },
        detail,
      },
      {
        what: '16 MiB there and back, bytes moved per second of server CPU',
        value: medianOf(ours.map((run) => (2 * tensorBytes) / 1000 / run.cpuUsPerRequest)),
        unit: 'GB/s',
        target: null,
        detail: '',
      },
      {
        what: 'CPU: 16 MiB there and back',
        value: medianRatio(ours, theirs, cpu),
        unit: '×',
        target: null,
        detail: cpuDetail,
      },
    ]
  },
}

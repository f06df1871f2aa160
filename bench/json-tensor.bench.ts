// A million numbers as JSON text: how fast they are read, measured by the server's processor time per request.

import { alternate, medianOf, type Bench } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { identityRequest } from './infer-request.ts'
import { startGalateaWithModels } from './subjects.ts'

const elements = 1_000_000

const jsonParseMbPerSecond = (text: string): number => {
  const startedMs = performance.now()
  JSON.parse(text)
  return text.length / 1e6 / ((performance.now() - startedMs) / 1000)
}

export const bench: Bench = {
  name: 'json-tensor',
  summary: 'a JSON tensor of a million FP32, text read per second of server CPU',
  async run({ rounds, secondsPerRun, say }) {
    await using galatea = await startGalateaWithModels()
    const request = identityRequest(elements, 'json', 'binary')
    const binary = identityRequest(elements, 'binary')
    const both = identityRequest(elements, 'json', 'json')
    const text = request.toString('latin1', request.indexOf('\r\n\r\n') + 4)
    await using jsonLoad = await HttpLoad.open(galatea, 1, request)
    await using binaryLoad = await HttpLoad.open(galatea, 1, binary)
    await using bothLoad = await HttpLoad.open(galatea, 1, both)
    await jsonLoad.run(secondsPerRun, 3)
    await binaryLoad.run(secondsPerRun, 3)
    await bothLoad.run(secondsPerRun, 3)
    const { json, plain, written } = await alternate(rounds, {
      json: () => jsonLoad.run(secondsPerRun, 4),
      plain: () => binaryLoad.run(secondsPerRun, 4),
      written: () => bothLoad.run(secondsPerRun, 4),
    })
    const cpuMs = (runs: readonly LoadMeasurement[]): number => medianOf(runs.map((run) => run.cpuUsPerRequest / 1000))
    const mb = text.length / 1e6
    const parse = medianOf(Array.from({ length: rounds }, () => jsonParseMbPerSecond(text)))
    const detail =
      `${mb.toFixed(1)} MB of text: ${cpuMs(json).toFixed(0)} ms of CPU, the same as binary data ` +
      `${cpuMs(plain).toFixed(0)} ms, answered as JSON ${cpuMs(written).toFixed(0)} ms; JSON.parse reads ${parse.toFixed(0)} MB/s`
    say(detail)
    return [
      {
        what: '1 M-element JSON tensor, whole request',
        value: mb / (cpuMs(json) / 1000),
        unit: 'MB/s',
        target: { kind: 'at least', value: 100 },
        detail,
      },
    ]
  },
}

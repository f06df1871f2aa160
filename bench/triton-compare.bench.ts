// Galatea beside a real Triton on the same machine, for whoever has one (bench/triton-server.ts says how it is named). Its onnxruntime and identity backends must be installed; without the variable there is nothing to compare.

import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { simpleRequest, type InferForm } from './infer-request.ts'
import { createSimpleRepository, startGalatea } from './subjects.ts'
import { startTriton, tritonCommand } from './triton-server.ts'

const forms: readonly InferForm[] = ['binary', 'json']
const concurrencies = [1, 16, 64]

export const bench: Bench = {
  name: 'triton-compare',
  summary: 'CPU per inference of `simple`, as a ratio to a real Triton (GALATEA_TRITON_COMMAND)',
  async run({ rounds, secondsPerRun, say }) {
    if (tritonCommand === '') {
      say('GALATEA_TRITON_COMMAND is not set: nothing to compare with')
      return []
    }
    await using repository = await createSimpleRepository()
    await using galatea = await startGalatea([repository.path])
    await using triton = await startTriton(repository.path)
    const figures: Figure[] = []
    for (const form of forms) {
      for (const connections of concurrencies) {
        await using ourLoad = await HttpLoad.open(galatea, connections, simpleRequest(form))
        await using tritonLoad = await HttpLoad.open(triton, connections, simpleRequest(form))
        await ourLoad.run(secondsPerRun)
        await tritonLoad.run(secondsPerRun)
        const { ours, theirs } = await alternate(rounds, {
          ours: () => ourLoad.run(secondsPerRun),
          theirs: () => tritonLoad.run(secondsPerRun),
        })
        const cpu = (measured: LoadMeasurement): number => measured.cpuUsPerRequest
        const detail = `Galatea ${medianOf(ours.map(cpu)).toFixed(0)} µs, Triton ${medianOf(theirs.map(cpu)).toFixed(0)} µs`
        const what = `CPU: simple, ${form}, c=${connections}`
        figures.push({ what, value: medianRatio(ours, theirs, cpu), unit: '×', target: null, detail })
      }
    }
    return figures
  },
}

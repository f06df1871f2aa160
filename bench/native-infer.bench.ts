// Triton's own onnxruntime backend in Galatea's host, beside a real Triton that runs the same library (GALATEA_TRITON_BACKENDS names the
// folder of both; GALATEA_TRITON_COMMAND has --backend-directory). CPU is that of the server and all its processes.

import { existsSync } from 'node:fs'
import { type Bench, type Figure } from './bench.ts'
import { compareWithTriton, type Measure } from './beside-triton.ts'
import { simpleRequest } from './infer-request.ts'
import { backendDirectory, backendLibrary, createNativeRepository } from './native-repository.ts'
import { startGalatea } from './subjects.ts'
import { startTriton, tritonCommand } from './triton-server.ts'

/** Ten times as many come before the first run: the server's code is compiled while it runs, and Triton's is compiled already. */
const fewestRequests = 2000

const measures: readonly Measure[] = [
  { what: 'CPU of all processes', of: (run) => run.cpuUsPerRequest, target: { kind: 'at most', value: 0.6 } },
  { what: 'p99', of: (run) => run.p99Us, target: { kind: 'at most', value: 0.7 } },
]

export const bench: Bench = {
  name: 'native-infer',
  summary: "Triton's own onnxruntime backend over HTTP, as ratios to a real Triton with the same library",
  async run(settings) {
    if (!existsSync(backendLibrary)) {
      settings.say(
        'GALATEA_TRITON_BACKENDS names no folder with onnxruntime/libtriton_onnxruntime.so: nothing is measured',
      )
      return []
    }
    const figures: Figure[] = []
    await using repository = await createNativeRepository()
    await using galatea = await startGalatea([repository.path], { flags: [`--backend-directory=${backendDirectory}`] })
    await using triton = tritonCommand === '' ? null : await startTriton(repository.path)
    for (const connections of [1, 16]) {
      const load = {
        what: `simple by Triton's onnxruntime backend, c=${connections}`,
        connections,
        request: simpleRequest('binary'),
        atLeast: fewestRequests,
      }
      figures.push(...(await compareWithTriton(settings, { galatea, triton }, load, measures)))
    }
    return figures
  },
}

// Triton's own onnxruntime backend in Galatea's host, beside a real Triton that runs the same library (GALATEA_TRITON_BACKENDS names the
// folder of both; GALATEA_TRITON_COMMAND has --backend-directory). CPU is that of the server and all its processes.

import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { exampleModels } from '../test/e2e/server-process.ts'
import { type Bench, type Figure } from './bench.ts'
import { compareWithTriton, type Measure } from './beside-triton.ts'
import { simpleRequest } from './infer-request.ts'
import { startGalatea } from './subjects.ts'
import { startTriton, tritonCommand } from './triton-server.ts'

const directory = process.env['GALATEA_TRITON_BACKENDS'] ?? ''
const library = path.join(directory, 'onnxruntime/libtriton_onnxruntime.so')
/** Ten times as many come before the first run: the server's code is compiled while it runs, and Triton's is compiled already. */
const fewestRequests = 2000

const measures: readonly Measure[] = [
  { what: 'CPU of all processes', of: (run) => run.cpuUsPerRequest, target: { kind: 'at most', value: 0.6 } },
  { what: 'p99', of: (run) => run.p99Us, target: { kind: 'at most', value: 0.7 } },
]

const config = `backend: "onnxruntime"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: 16 }, { name: "INPUT1" data_type: TYPE_INT32 dims: 16 } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: 16 }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: 16 } ]
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { }
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
`

const createRepository = async (): Promise<AsyncDisposable & { readonly path: string }> => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-native-'))
  await mkdir(path.join(root, 'simple/1'), { recursive: true })
  await cp(path.join(exampleModels, 'simple/1/model.onnx'), path.join(root, 'simple/1/model.onnx'))
  await writeFile(path.join(root, 'simple/config.pbtxt'), config)
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

export const bench: Bench = {
  name: 'native-infer',
  summary: "Triton's own onnxruntime backend over HTTP, as ratios to a real Triton with the same library",
  async run(settings) {
    if (!existsSync(library)) {
      settings.say(
        'GALATEA_TRITON_BACKENDS names no folder with onnxruntime/libtriton_onnxruntime.so: nothing is measured',
      )
      return []
    }
    const figures: Figure[] = []
    await using repository = await createRepository()
    await using galatea = await startGalatea([repository.path], { flags: [`--backend-directory=${directory}`] })
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

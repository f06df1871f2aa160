// A Python model over HTTP: the example add_sub with small and with 4 MiB tensors, and how soon a server with it is
// ready. Beside a real Triton where there is one (bench/triton-server.ts); CPU is that of the server and all its
// processes.

import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { projectRoot } from '../test/e2e/server-process.ts'
import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { compareWithTriton, type BenchSettings, type Measure } from './beside-triton.ts'
import { addSubRequest } from './infer-request.ts'
import { startGalatea, type Subject } from './subjects.ts'
import { becomesReady, startTriton, tritonCommand } from './triton-server.ts'

const concurrencies = [1, 16, 64]
const largeElements = 1024 * 1024
/** Two inputs and two outputs of 4 MiB. */
const largeBytes = 4 * 4 * largeElements
const fewestLargeRequests = 10
/** A run of seconds on a busy machine may be too short for code to be compiled. */
const fewestSmallRequests = 500

const smallMeasures: readonly Measure[] = [
  { what: 'CPU of all processes', of: (run) => run.cpuUsPerRequest, target: { kind: 'at most', value: 0.6 } },
  { what: 'p50', of: (run) => run.p50Us, target: { kind: 'at most', value: 0.8 } },
]
const largeMeasures: readonly Measure[] = [
  { what: 'throughput', of: (run) => run.requestsPerSecond, target: { kind: 'at least', value: 1 } },
]

const createRepository = async (withLarge: boolean): Promise<AsyncDisposable & { readonly path: string }> => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-add-sub-'))
  const example = path.join(projectRoot, 'examples/python/add_sub')
  await cp(example, path.join(root, 'add_sub'), { recursive: true })
  if (withLarge) {
    await cp(example, path.join(root, 'add_sub_large'), { recursive: true })
    const config = await readFile(path.join(example, 'config.pbtxt'), 'utf8')
    await writeFile(path.join(root, 'add_sub_large/config.pbtxt'), config.replaceAll('dims: [ 4 ]', 'dims: [ -1 ]'))
  }
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

/** From `spawn` until the server says that it is ready. */
const secondsToReady = async (start: () => Promise<Subject>): Promise<number> => {
  const startedMs = performance.now()
  await using subject = await start()
  await becomesReady(subject.port)
  return (performance.now() - startedMs) / 1000
}

const compareStarts = async ({ rounds, say }: BenchSettings): Promise<Figure> => {
  await using repository = await createRepository(false)
  const hasTriton = tritonCommand !== ''
  const { ours, theirs } = await alternate(rounds, {
    ours: () => secondsToReady(() => startGalatea([repository.path])),
    theirs: () => (hasTriton ? secondsToReady(() => startTriton(repository.path)) : Promise.resolve(NaN)),
  })
  const detail = `Galatea ${medianOf(ours).toFixed(2)} s${hasTriton ? `, Triton ${medianOf(theirs).toFixed(2)} s` : ''}`
  say(`ready with one Python model: ${detail}`)
  const what = 'time until ready with one Python model'
  if (!hasTriton) return { what, value: medianOf(ours), unit: 's', target: null, detail }
  const value = medianRatio(ours, theirs, (seconds) => seconds)
  return { what, value, unit: '×', target: { kind: 'at most', value: 0.5 }, detail }
}

export const bench: Bench = {
  name: 'python-infer',
  summary: 'add_sub in Python over HTTP, as ratios to a real Triton (GALATEA_TRITON_COMMAND)',
  async run(settings) {
    const figures: Figure[] = []
    {
      await using repository = await createRepository(true)
      await using galatea = await startGalatea([repository.path])
      await using triton = tritonCommand === '' ? null : await startTriton(repository.path)
      const subjects = { galatea, triton }
      for (const connections of concurrencies) {
        const request = addSubRequest('add_sub', 4)
        const load = { what: `add_sub, c=${connections}`, connections, request, atLeast: fewestSmallRequests }
        figures.push(...(await compareWithTriton(settings, subjects, load, smallMeasures)))
      }
      const request = addSubRequest('add_sub_large', largeElements)
      for (const connections of [1, 4]) {
        const what = `add_sub, ${largeBytes / 4 / 1024 / 1024} MiB tensors, c=${connections}`
        const load = { what, connections, request, atLeast: fewestLargeRequests }
        figures.push(...(await compareWithTriton(settings, subjects, load, largeMeasures)))
      }
    }
    figures.push(await compareStarts(settings))
    return figures
  },
}

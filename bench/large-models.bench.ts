// What large models cost: memory of one and of four instances of a model with 100 MB of weights, the time of a load per gigabyte, and the
// memory of a server that serves a table of 10 GB of which requests read a few rows.

import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { buildOnnx, type OnnxModel } from '../test/fixtures/onnx/build-onnx.ts'
import { medianOf, type Bench, type Figure } from './bench.ts'
import { residentMibOf } from './process-usage.ts'
import { fixedWeights } from './wide-model.ts'

const width = 1024
const layerBytes = width * width * 4
const rowsOfTable = 2_621_440
const tableBytes = rowsOfTable * width * 4

/** Layers one after the other; all weights are in one file beside the model. */
const deepModel = (layers: number): OnnxModel => ({
  inputs: [{ name: 'X', type: 'FP32', shape: ['batch', width] }],
  outputs: [{ name: 'Y', type: 'FP32', shape: ['batch', width] }],
  initializers: Array.from({ length: layers }, (_, i) => ({
    name: `W${i}`,
    type: 'FP32',
    dims: [width, width],
    external: { location: 'weights.bin', offset: i * layerBytes, length: layerBytes },
  })),
  nodes: Array.from({ length: layers }, (_, i) => ({
    op: 'MatMul',
    inputs: [i === 0 ? 'X' : `h${i}`, `W${i}`],
    outputs: [i === layers - 1 ? 'Y' : `h${i + 1}`],
  })),
})

const tableModel: OnnxModel = {
  inputs: [{ name: 'X', type: 'INT64', shape: ['batch', 1] }],
  outputs: [{ name: 'Y', type: 'FP32', shape: ['batch', 1, width] }],
  initializers: [
    { name: 'table', type: 'FP32', dims: [rowsOfTable, width], external: { location: 'weights.bin', offset: 0, length: tableBytes } },
  ], // prettier-ignore
  nodes: [{ op: 'Gather', inputs: ['table', 'X'], outputs: ['Y'] }],
}

/** The first `layers` blocks of the weights have numbers. The others are holes, which take no room on the disk. */
async function writeModel(
  root: string,
  model: OnnxModel,
  bytes: number,
  layers: number,
  instances: number,
): Promise<void> {
  const folder = path.join(root, 'large/1')
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, 'model.onnx'), buildOnnx(model))
  await writeFile(
    path.join(root, 'large/config.pbtxt'),
    `backend: "onnxruntime"\ninstance_group { count: ${instances} kind: KIND_CPU }\n`,
  )
  await using file = await open(path.join(folder, 'weights.bin'), 'w')
  await file.truncate(bytes)
  for (let layer = 0; layer < layers; layer++)
    await file.write(fixedWeights(width * width, layer + 1, 1 / 16), 0, layerBytes, layer * layerBytes)
}

const writeDeep = (gigabytes: number, instances: number) => (root: string) => {
  const layers = Math.round((gigabytes * 1e9) / layerBytes)
  return writeModel(root, deepModel(layers), layers * layerBytes, layers, instances)
}

async function withServer<Result>(
  write: (root: string) => Promise<void>,
  run: (server: ServerProcess) => Promise<Result>,
): Promise<Result> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-large-'))
  try {
    await write(root)
    await using server = await startServerProcess([`--model-repository=${root}`, '--model-control-mode=explicit'])
    return await run(server)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

async function loadSeconds(server: ServerProcess): Promise<number> {
  const startedMs = performance.now()
  const response = await fetch(`${server.url}/v2/repository/models/large/load`, { method: 'POST' })
  if (!response.ok) throw new Error(await response.text())
  return (performance.now() - startedMs) / 1000
}

async function infer(server: ServerProcess, datatype: string, shape: number[], data: number[]): Promise<void> {
  const body = JSON.stringify({
    inputs: [{ name: 'X', datatype, shape, data }],
    outputs: [{ name: 'Y', parameters: { classification: 1 } }],
  })
  const response = await fetch(`${server.url}/v2/models/large/infer`, { method: 'POST', body })
  if (!response.ok) throw new Error(await response.text())
  await response.arrayBuffer()
}

/** Memory that the model adds, after every instance has run. */
const memoryOf = (instances: number): Promise<number> =>
  withServer(writeDeep(0.1, instances), async (server) => {
    const before = residentMibOf(server.pid)
    await loadSeconds(server)
    const row = Array.from({ length: width }, () => 0.5)
    for (let i = 0; i < 20; i++)
      await Promise.all(Array.from({ length: instances }, () => infer(server, 'FP32', [1, width], row)))
    return residentMibOf(server.pid) - before
  })

const secondsPerGigabyte = (): Promise<number> => withServer(writeDeep(1, 1), loadSeconds)

async function largeTable(): Promise<{ readonly seconds: number; readonly addedMib: number }> {
  return withServer((root) => writeModel(root, tableModel, tableBytes, 1, 1), async (server) => {
    const before = residentMibOf(server.pid)
    const seconds = await loadSeconds(server)
    for (let i = 0; i < 100; i++) await infer(server, 'INT64', [1, 1], [(i * 26_003) % rowsOfTable])
    return { seconds, addedMib: residentMibOf(server.pid) - before }
  }) // prettier-ignore
}

export const bench: Bench = {
  name: 'large-models',
  summary: 'memory of one and four instances of 100 MB of weights, load time per GB, memory with a file of 10 GB',
  async run({ rounds, say }) {
    const figures: Figure[] = []
    const add = (what: string, value: number, unit: string, detail = ''): void => {
      say(`${what}: ${value.toFixed(2)} ${unit}`)
      figures.push({ what, value, unit, target: null, detail })
    }
    const repeat = async (measure: () => Promise<number>): Promise<number> => {
      const values: number[] = []
      for (let round = 0; round < Math.min(rounds, 3); round++) values.push(await measure())
      return medianOf(values)
    }
    add('memory that a model with 100 MB of weights adds, 1 instance', await repeat(() => memoryOf(1)), 'MiB')
    add('memory that a model with 100 MB of weights adds, 4 instances', await repeat(() => memoryOf(4)), 'MiB')
    add('load of a model, per GB of weights', await repeat(secondsPerGigabyte), 's')
    const { seconds, addedMib } = await largeTable()
    add('load of a model with a table of 10.7 GB', seconds, 's')
    add('memory that the table of 10.7 GB adds after 100 requests', addedMib, 'MiB')
    return figures
  },
}

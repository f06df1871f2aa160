// JPEG pictures of 8 megapixels by `POST /v2/models/{model}/predict`, and what others notice: small inferences at a steady rate, alone and
// beside uploads; pictures a second with one core and with all of them.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import sharp from 'sharp'
import { buildOnnx } from '../test/fixtures/onnx/build-onnx.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, type Bench, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { inferRequest } from './infer-request.ts'
import { OpenHttpLoad, quantile, type OpenLoadResult } from './open-http-load.ts'
import { onCore } from './pinning.ts'

const [width, height] = [3264, 2448]
const side = 224
const smallPerSecond = 200

/** A picture with edges, slopes and noise, as photographs have them: about 2 MiB. */
async function photograph(): Promise<Buffer> {
  const pixels = Buffer.alloc(width * height * 3)
  let state = 1
  for (let i = 0; i < pixels.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    const [x, y] = [Math.floor(i / 3) % width, Math.floor(i / 3 / width)]
    pixels[i] = ((x >> 3) ^ (y >> 4)) + (state >>> 28) + ((i % 3) * x) / 64
  }
  return sharp(pixels, { raw: { width, height, channels: 3 } })
    .jpeg({ quality: 85 })
    .toBuffer()
}

/** Averages of squares: 3072 scores out of a picture, as an image classifier has them, at little cost of its own. */
const classifier = (): Buffer =>
  buildOnnx({
    inputs: [{ name: 'X', type: 'FP32', shape: ['batch', 3, side, side] }],
    outputs: [{ name: 'Y', type: 'FP32', shape: ['batch', 3072] }],
    initializers: [],
    nodes: [
      {
        op: 'AveragePool',
        inputs: ['X'],
        outputs: ['a'],
        attributes: [
          { name: 'kernel_shape', ints: [7, 7] },
          { name: 'strides', ints: [7, 7] },
        ],
      },
      { op: 'Flatten', inputs: ['a'], outputs: ['Y'] },
    ],
  })

async function repository(): Promise<AsyncDisposable & { readonly root: string }> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-upload-bench-'))
  for (const name of ['classifier', 'small']) await mkdir(path.join(root, name, '1'), { recursive: true })
  await writeFile(path.join(root, 'classifier/1/model.onnx'), classifier())
  await writeFile(
    path.join(root, 'classifier/config.pbtxt'),
    `backend: "onnxruntime" max_batch_size: 8
     input { name: "X" data_type: TYPE_FP32 dims: [ 3, ${side}, ${side} ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 3072 ] }
     parameters { key: "predict" value { string_value: "image" } }`,
  )
  await writeFile(
    path.join(root, 'small/config.pbtxt'),
    `backend: "identity" max_batch_size: 8
     input { name: "X" data_type: TYPE_FP32 dims: [ 16 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 16 ] }`,
  )
  return { root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

function uploadRequest(picture: Buffer): Buffer {
  const head = `POST /v2/models/classifier/predict?top_k=5 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/jpeg\r\n`
  return Buffer.concat([Buffer.from(`${head}Content-Length: ${picture.length}\r\n\r\n`), picture])
}

const smallRequest = (): Buffer =>
  inferRequest('small', [{ name: 'X', datatype: 'FP32', shape: [1, 16], values: new Float32Array(16) }], 'binary')

export const bench: Bench = {
  name: 'upload',
  summary:
    'p99 of small inferences beside uploads of 8 megapixels, to alone; pictures a second with all cores to one core',
  async run({ rounds, secondsPerRun, say }) {
    await using models = await repository()
    const picture = await photograph()
    const flags = [`--model-repository=${models.root}`]
    const cores = availableParallelism()
    const seconds = Math.max(4, secondsPerRun)
    say(`a JPEG of ${width} × ${height}, ${(picture.length / 2 ** 20).toFixed(1)} MiB; ${cores} cores`)
    const figures: Figure[] = []
    {
      await using server = await startServerProcess(flags)
      using small = await OpenHttpLoad.open(server.port, 64, smallRequest())
      await using uploads = await HttpLoad.open({ pid: server.pid, port: server.port }, 1, uploadRequest(picture))
      await small.run(smallPerSecond, 2)
      await uploads.run(2, 4)
      const { alone, beside } = await alternate<'alone' | 'beside', { small: OpenLoadResult; rate: number }>(rounds, {
        alone: async () => ({ small: await small.run(smallPerSecond, seconds), rate: 0 }),
        beside: async () => {
          const [result, load] = await Promise.all([small.run(smallPerSecond, seconds), uploads.run(seconds, 1)])
          return { small: result, rate: load.requestsPerSecond }
        },
      })
      const p99 = (one: { small: OpenLoadResult }): number => quantile(one.small.okMs, 0.99)
      const describe = (all: readonly { small: OpenLoadResult }[]): string =>
        `p50 ${medianOf(all.map((one) => quantile(one.small.okMs, 0.5))).toFixed(2)} ms, p99 ${medianOf(all.map(p99)).toFixed(2)} ms`
      const detail = `alone ${describe(alone)}; beside ${medianOf(beside.map(({ rate }) => rate)).toFixed(1)} pictures/s ${describe(beside)}`
      say(detail)
      figures.push({
        what: 'p99 of small inferences beside uploads of 8 megapixels, to alone',
        value: medianOf(beside.map((one, round) => p99(one) / p99(alone[round] as { small: OpenLoadResult }))),
        unit: '×',
        target: { kind: 'at most', value: 1.3 },
        detail,
      })
    }
    const measure = async (prefix: readonly string[], connections: number): Promise<LoadMeasurement> => {
      await using server = await startServerProcess(flags, { prefix })
      await using uploads = await HttpLoad.open(
        { pid: server.pid, port: server.port },
        connections,
        uploadRequest(picture),
      )
      await uploads.run(1, 2)
      return await uploads.run(seconds, 4)
    }
    const { one, all } = await alternate(Math.min(3, rounds), {
      one: () => measure(onCore(0), 2),
      all: () => measure([], cores * 2),
    })
    const rate = (runs: readonly LoadMeasurement[]): number => medianOf(runs.map((run) => run.requestsPerSecond))
    const detail = `${rate(one).toFixed(1)} pictures/s on one core, ${rate(all).toFixed(1)}/s on ${cores}`
    say(detail)
    figures.push({
      what: `pictures of 8 megapixels a second: ${cores} cores to one, for each core`,
      value: rate(all) / rate(one) / cores,
      unit: '×',
      target: { kind: 'at least', value: 0.7 },
      detail,
    })
    return figures
  },
}

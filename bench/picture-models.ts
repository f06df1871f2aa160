// A model that classifies pictures and a small one beside it, with their requests: what the benches of pictures share.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import sharp from 'sharp'
import { buildOnnx } from '../test/fixtures/onnx/build-onnx.ts'
import { inferRequest } from './infer-request.ts'

/** A picture with edges, slopes and noise, as photographs have them: 8 megapixels are about 2 MiB. */
export async function photograph(width: number, height: number): Promise<Buffer> {
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
const classifier = (side: number): Buffer =>
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
          { name: 'kernel_shape', ints: [side / 32, side / 32] },
          { name: 'strides', ints: [side / 32, side / 32] },
        ],
      },
      { op: 'Flatten', inputs: ['a'], outputs: ['Y'] },
    ],
  })

/** The classifier takes squares of `side` pixels, a multiple of 32. */
export async function pictureModels(side: number): Promise<AsyncDisposable & { readonly root: string }> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-pictures-bench-'))
  for (const name of ['classifier', 'small']) await mkdir(path.join(root, name, '1'), { recursive: true })
  await writeFile(path.join(root, 'classifier/1/model.onnx'), classifier(side))
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

export function uploadRequest(picture: Buffer): Buffer {
  const head = `POST /v2/models/classifier/predict?top_k=5 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/jpeg\r\n`
  return Buffer.concat([Buffer.from(`${head}Content-Length: ${picture.length}\r\n\r\n`), picture])
}

export const smallRequest = (): Buffer =>
  inferRequest('small', [{ name: 'X', datatype: 'FP32', shape: [1, 16], values: new Float32Array(16) }], 'binary')

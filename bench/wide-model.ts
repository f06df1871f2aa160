// An ONNX model that gains from batches: two layers of 2048 × 2048, 32 MiB of weights, read once per execution whatever
// its size.

import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { buildOnnx, type OnnxModel } from '../test/fixtures/onnx/build-onnx.ts'

export const wideSize = 2048

/** Weights from a fixed rule: at most half of `span`, of both signs, none of them special. */
export const fixedWeights = (count: number, seed: number, span: number): Uint8Array => {
  const values = new Float32Array(count)
  let state = seed
  for (let i = 0; i < values.length; i++) {
    state = (state * 1103515245 + 12345) & 0x7fffffff
    values[i] = (state / 0x7fffffff - 0.5) * span
  }
  return new Uint8Array(values.buffer)
}

export const wideModel = (): OnnxModel => {
  const raw = fixedWeights(wideSize * wideSize, 1, 1 / 32)
  const dims = [wideSize, wideSize]
  return {
    inputs: [{ name: 'X', type: 'FP32', shape: ['batch', wideSize] }],
    outputs: [{ name: 'Y', type: 'FP32', shape: ['batch', 16] }],
    initializers: [
      { name: 'W1', type: 'FP32', dims, raw },
      { name: 'W2', type: 'FP32', dims, raw },
      { name: 'W3', type: 'FP32', dims: [wideSize, 16], raw: raw.subarray(0, wideSize * 16 * 4) },
    ],
    nodes: [
      { op: 'MatMul', inputs: ['X', 'W1'], outputs: ['a'] },
      { op: 'Relu', inputs: ['a'], outputs: ['b'] },
      { op: 'MatMul', inputs: ['b', 'W2'], outputs: ['c'] },
      { op: 'Relu', inputs: ['c'], outputs: ['d'] },
      { op: 'MatMul', inputs: ['d', 'W3'], outputs: ['Y'] },
    ],
  }
}

/** One instance on one thread, up to 64 rows; `batching` is added to its configuration. */
export async function writeWideModel(root: string, name: string, batching: string): Promise<void> {
  await mkdir(path.join(root, name, '1'), { recursive: true })
  await writeFile(path.join(root, name, '1/model.onnx'), buildOnnx(wideModel()))
  const config =
    'backend: "onnxruntime"\nmax_batch_size: 64\ninstance_group { kind: KIND_CPU count: 1 }\n' +
    `input { name: "X" data_type: TYPE_FP32 dims: [ ${wideSize} ] }\n` +
    'output { name: "Y" data_type: TYPE_FP32 dims: [ 16 ] }\n' +
    `parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n${batching}`
  await writeFile(path.join(root, name, 'config.pbtxt'), config)
}

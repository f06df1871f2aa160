// A network of ResNet-50's shape at 224 × 224: its layers, strides and widths, with batch normalisation folded into the
// convolutions as exporters do. The weights are random: what it answers means nothing, what it costs is the same.

import { existsSync } from 'node:fs'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { buildOnnx, type OnnxInitializer, type OnnxModel, type OnnxNode } from '../test/fixtures/onnx/build-onnx.ts'

export const imageElements = 3 * 224 * 224

/** Uniform, with the variance that keeps activations of the same size from layer to layer. */
function randomWeights(count: number, fanIn: number, state: { seed: number }): Uint8Array {
  const values = new Float32Array(count)
  const width = Math.sqrt(6 / fanIn)
  for (let i = 0; i < count; i++) {
    state.seed = (Math.imul(state.seed, 1103515245) + 12345) & 0x7fffffff
    values[i] = (state.seed / 0x7fffffff - 0.5) * 2 * width
  }
  return new Uint8Array(values.buffer)
}

class NetworkBuilder {
  readonly nodes: OnnxNode[] = []
  readonly initializers: OnnxInitializer[] = []
  readonly #random = { seed: 1 }

  weight(name: string, dims: readonly number[], fanIn: number): string {
    const count = dims.reduce((product, dim) => product * dim, 1)
    this.initializers.push({ name, type: 'FP32', dims, raw: randomWeights(count, fanIn, this.#random) })
    return name
  }

  add(op: string, name: string, inputs: readonly string[], attributes: OnnxNode['attributes'] = []): string {
    this.nodes.push({ op, name, inputs, outputs: [name], attributes })
    return name
  }

  convolve(name: string, input: string, from: number, to: number, kernel: number, stride: number): string {
    const fanIn = from * kernel * kernel
    const weight = this.weight(`${name}.w`, [to, from, kernel, kernel], fanIn)
    const bias = this.weight(`${name}.b`, [to], 1e6)
    const pad = (kernel - 1) >> 1
    return this.add(
      'Conv',
      name,
      [input, weight, bias],
      [
        { name: 'kernel_shape', ints: [kernel, kernel] },
        { name: 'strides', ints: [stride, stride] },
        { name: 'pads', ints: [pad, pad, pad, pad] },
      ],
    )
  }

  bottleneck(name: string, input: string, from: number, width: number, stride: number): string {
    const to = width * 4
    const a = this.add('Relu', `${name}.ra`, [this.convolve(`${name}.a`, input, from, width, 1, 1)])
    const b = this.add('Relu', `${name}.rb`, [this.convolve(`${name}.b`, a, width, width, 3, stride)])
    const c = this.convolve(`${name}.c`, b, width, to, 1, 1)
    const isSame = from === to && stride === 1
    const shortcut = isSame ? input : this.convolve(`${name}.d`, input, from, to, 1, stride)
    return this.add('Relu', `${name}.r`, [this.add('Add', `${name}.sum`, [c, shortcut])])
  }
}

export function resnetModel(): OnnxModel {
  const net = new NetworkBuilder()
  const stem = net.add('Relu', 'stem.r', [net.convolve('stem', 'image', 3, 64, 7, 2)])
  let at = net.add(
    'MaxPool',
    'pool',
    [stem],
    [
      { name: 'kernel_shape', ints: [3, 3] },
      { name: 'strides', ints: [2, 2] },
      { name: 'pads', ints: [1, 1, 1, 1] },
    ],
  )
  let channels = 64
  for (const [stage, [blocks, width]] of (
    [
      [3, 64],
      [4, 128],
      [6, 256],
      [3, 512],
    ] as const
  ).entries()) {
    // prettier-ignore
    for (let block = 0; block < blocks; block++) {
      at = net.bottleneck(`s${stage}b${block}`, at, channels, width, block === 0 && stage > 0 ? 2 : 1)
      channels = width * 4
    }
  }
  const flat = net.add('Flatten', 'flat', [net.add('GlobalAveragePool', 'average', [at])])
  const head = [net.weight('head.w', [2048, 1000], 2048), net.weight('head.b', [1000], 1e6)]
  net.nodes.push({ op: 'Gemm', inputs: [flat, ...head], outputs: ['scores'] })
  return {
    inputs: [{ name: 'image', type: 'FP32', shape: ['batch', 3, 224, 224] }],
    outputs: [{ name: 'scores', type: 'FP32', shape: ['batch', 1000] }],
    nodes: net.nodes,
    initializers: net.initializers,
  }
}

/** Into .cache, because it is 100 MB; made once. Resolves with the folder of its repository. */
export async function prepareResnetRepository(cache: string): Promise<string> {
  const root = path.join(cache, 'resnet50-random-weights')
  const file = path.join(root, 'resnet50/1/model.onnx')
  if (existsSync(file)) return root
  await mkdir(path.dirname(file), { recursive: true })
  const config =
    'backend: "onnxruntime"\nmax_batch_size: 8\ninstance_group { kind: KIND_CPU count: 1 }\n' +
    'input { name: "image" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }\n' +
    'output { name: "scores" data_type: TYPE_FP32 dims: [ 1000 ] }\n' +
    'parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n'
  await writeFile(path.join(root, 'resnet50/config.pbtxt'), config)
  await writeFile(`${file}.part`, buildOnnx(resnetModel()))
  await rename(`${file}.part`, file)
  return root
}

// The execution providers of a session, with their options, out of `optimization` and `parameters` of a configuration. Pure.

import {
  acceleratorNamed,
  acceleratorOptions,
  acceleratorProblems,
  acceleratorsOf,
  type AcceleratorName,
} from '../../config/accelerator-keys.ts'
import { throwFirst } from '../../config/config-problem.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'

export type ProviderSettings = {
  readonly name: AcceleratorName
  readonly options: readonly (readonly [key: string, value: string])[]
}

/** On every machine. Throws INVALID_ARG. */
export const refuseUnknownAccelerators = (config: ModelConfig): void => throwFirst(acceleratorProblems(config))

/** What the configuration says for GPUs, where no instance of the model is on one: as in Triton it has no effect. */
export function* idleGpuSettings(config: ModelConfig): Generator<string> {
  if (config.instanceGroup.some(({ kind }) => kind === 'KIND_GPU')) return
  for (const { name } of acceleratorsOf(config, 'gpu_execution_accelerator')) {
    yield `gpu_execution_accelerator '${name}' has no effect: no instance of the model is on a GPU`
  }
  if (config.optimization?.cuda?.graphs === true)
    yield 'optimization.cuda.graphs has no effect: no instance of the model is on a GPU'
}

/** For an instance on a GPU, in the order in which ONNX Runtime asks them: TensorRT, then CUDA for all that is left. */
export function gpuProviders(config: ModelConfig, deviceId: number): ProviderSettings[] {
  refuseUnknownAccelerators(config)
  const accelerators = acceleratorsOf(config, 'gpu_execution_accelerator')
  /** Of an accelerator that stands there twice the keys come together, as in Triton. */
  const optionsOf = (name: 'cuda' | 'tensorrt'): Map<string, string> =>
    new Map(
      accelerators
        .filter((each) => each.name === name)
        .flatMap(({ parameters }) => acceleratorOptions(config.name, name, parameters)),
    )
  const device = ['device_id', String(deviceId)] as const
  const providers: ProviderSettings[] = []
  if (accelerators.some(({ name }) => name === 'tensorrt')) {
    providers.push({ name: 'tensorrt', options: [device, ...optionsOf('tensorrt')] })
  }
  const options = new Map([...cudaDefaults, ...optionsOf('cuda')])
  // Copies have streams of their own.
  options.delete('do_copy_in_default_stream')
  for (const [key, value] of parameterOptions(config)) {
    if (value === null) options.delete(key)
    else options.set(key, value)
  }
  providers.push({ name: 'cuda', options: [device, ...options] })
  return providers
}

/** For an instance on the CPU: those that the library has. The others are named in `absent`. */
export function cpuProviders(
  config: ModelConfig,
  available: readonly string[],
): { readonly providers: ProviderSettings[]; readonly absent: readonly string[] } {
  refuseUnknownAccelerators(config)
  const providers: ProviderSettings[] = []
  const absent: string[] = []
  for (const { name, parameters } of acceleratorsOf(config, 'cpu_execution_accelerator')) {
    const provider = acceleratorNamed('cpu_execution_accelerator', name) as 'openvino' | 'dnnl'
    const options = new Map([...cpuDefaults[provider], ...acceleratorOptions(config.name, provider, parameters)])
    if (available.includes(libraryNames[provider])) providers.push({ name: provider, options: [...options] })
    else absent.push(name)
  }
  return { providers, absent }
}

/** A build of OpenVINO may have another device for its default. */
const cpuDefaults = { openvino: [['device_type', 'CPU']], dnnl: [] } as const

/** As `GetAvailableProviders` names them. */
const libraryNames = { openvino: 'OpenVINOExecutionProvider', dnnl: 'DnnlExecutionProvider' } as const

/**
 * Convolutions read channels last on tensor cores. With channels first, each of them is turned around before and after:
 * ResNet-50 in half precision gave 7,986 images per second on an H200 that way, and 10,001 with this setting.
 */
const cudaDefaults: readonly (readonly [string, string])[] = [
  ['prefer_nhwc', '1'],
  // A batch of a size that has not come before is tuned first. Trying all ways while other batches run took 1.5 s a size.
  ['cudnn_conv_algo_search', 'HEURISTIC'],
]

/** Triton's parameters of models on the GPU, which count more than the same keys of the accelerator. Null: no limit. */
function* parameterOptions(config: ModelConfig): Generator<readonly [string, string | null]> {
  for (const key of ['cudnn_conv_algo_search', 'arena_extend_strategy'] as const) {
    const word = readParameter(config, key)
    if (word !== null) yield* acceleratorOptions(config.name, 'cuda', new Map([[key, word]]))
  }
  const limit = readParameter(config, 'gpu_mem_limit')
  if (limit !== null) yield ['gpu_mem_limit', limit === Infinity ? null : String(limit)]
}

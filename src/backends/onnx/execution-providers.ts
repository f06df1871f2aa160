// The execution providers of a session, with their options, out of `optimization` and `parameters` of a configuration. Pure.

import { nearestWord } from '../../base/nearest-word.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'

export type ProviderName = 'cuda' | 'tensorrt' | 'openvino' | 'dnnl'
export type ProviderSettings = {
  readonly name: ProviderName
  readonly options: readonly (readonly [key: string, value: string])[]
}

/** Names of `gpu_execution_accelerator` and `cpu_execution_accelerator`. */
const gpuAccelerators: Readonly<Record<string, ProviderName>> = { cuda: 'cuda', tensorrt: 'tensorrt' }
const cpuAccelerators: Readonly<Record<string, ProviderName>> = {
  openvino: 'openvino',
  onednn: 'dnnl',
  oneDNN: 'dnnl',
  dnnl: 'dnnl',
}

type AcceleratorList = 'gpu_execution_accelerator' | 'cpu_execution_accelerator'
type Accelerator = { readonly name: string; readonly parameters: ReadonlyMap<string, string> }

const acceleratorsOf = (config: ModelConfig, list: AcceleratorList): readonly Accelerator[] => {
  const accelerators = config.optimization?.executionAccelerators
  if (list === 'gpu_execution_accelerator') return accelerators?.gpuExecutionAccelerator ?? []
  return accelerators?.cpuExecutionAccelerator ?? []
}

/** A name that nobody knows is refused on every machine: a setting that is a typing error must not look as if it worked. */
export function refuseUnknownAccelerators(config: ModelConfig): void {
  for (const [list, known] of [
    ['gpu_execution_accelerator', gpuAccelerators],
    ['cpu_execution_accelerator', cpuAccelerators],
  ] as const) {
    for (const { name } of acceleratorsOf(config, list)) {
      if (Object.hasOwn(known, name)) continue
      const names = Object.keys(known)
      const meant = nearestWord(name, names)
      const advice = meant === null ? `expected one of ${names.join(', ')}` : `did you mean '${meant}'?`
      const text = `unknown Execution Accelerator '${name}' is requested in ${list} of model '${config.name}': ${advice}`
      throw new ServerError('INVALID_ARG', text)
    }
  }
}

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
  const named = (name: string): Accelerator | undefined => accelerators.find((each) => each.name === name)
  const tensorRt = named('tensorrt')
  const device = ['device_id', String(deviceId)] as const
  const providers: ProviderSettings[] = []
  if (tensorRt !== undefined) {
    providers.push({ name: 'tensorrt', options: [device, ...tensorRtOptions(config.name, tensorRt.parameters)] })
  }
  const options = new Map(cudaDefaults)
  for (const [key, value] of parameterOptions(config)) options.set(key, value)
  for (const [key, value] of cudaOptions(config.name, named('cuda')?.parameters)) options.set(key, value)
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
    const provider = cpuAccelerators[name] as 'openvino' | 'dnnl'
    if (available.includes(libraryNames[provider])) providers.push({ name: provider, options: [...parameters] })
    else absent.push(name)
  }
  return { providers, absent }
}

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

const extendStrategy: Readonly<Record<string, string>> = { 0: 'kNextPowerOfTwo', 1: 'kSameAsRequested' }
const algorithmSearch: Readonly<Record<string, string>> = { 0: 'EXHAUSTIVE', 1: 'HEURISTIC', 2: 'DEFAULT' }

/** Triton's parameters of models on the GPU. */
function* parameterOptions(config: ModelConfig): Generator<readonly [string, string]> {
  const search = readParameter(config, 'cudnn_conv_algo_search')
  if (search !== null) yield ['cudnn_conv_algo_search', algorithmSearch[search] ?? search]
  const limit = readParameter(config, 'gpu_mem_limit')
  if (limit !== null && limit !== Infinity) yield ['gpu_mem_limit', String(limit)]
  const strategy = readParameter(config, 'arena_extend_strategy')
  if (strategy !== null) yield ['arena_extend_strategy', extendStrategy[strategy] ?? strategy]
}

/** Keys of ONNX Runtime's CUDA provider. Keys about streams and devices are missing here, because the server sets those. */
const cudaKeys = [
  'arena_extend_strategy',
  'cudnn_conv1d_pad_to_nc1d',
  'cudnn_conv_algo_search',
  'cudnn_conv_use_max_workspace',
  'enable_skip_layer_norm_strict_mode',
  'fuse_conv_bias',
  'gpu_mem_limit',
  'prefer_nhwc',
  'sdpa_kernel',
  'tunable_op_enable',
  'tunable_op_max_tuning_duration_ms',
  'tunable_op_tuning_enable',
  'use_ep_level_unified_stream',
  'use_tf32',
]

/** Keys of the CUDA provider that are not for a model, and what says the same. */
const serversKeys: Readonly<Record<string, string>> = {
  device_id: 'the GPU is that of the instance: instance_group { gpus: [ … ] }',
  enable_cuda_graph: 'write optimization { cuda { graphs: true } }',
  ...Object.fromEntries(
    [
      'default_memory_arena_cfg',
      'gpu_external_alloc',
      'gpu_external_empty_cache',
      'gpu_external_free',
      'has_user_compute_stream',
      'user_compute_stream',
    ].map((key) => [key, 'the server sets it']),
  ),
}

function* cudaOptions(
  model: string,
  parameters: ReadonlyMap<string, string> = new Map(),
): Generator<readonly [string, string]> {
  for (const [key, value] of parameters) {
    // As in `parameters`: it has no effect.
    if (key === 'do_copy_in_default_stream') continue
    if (Object.hasOwn(serversKeys, key)) {
      const text = `parameter '${key}' of accelerator 'cuda' of model '${model}' is not for a model: ${serversKeys[key]}`
      throw new ServerError('INVALID_ARG', text)
    }
    if (!cudaKeys.includes(key)) throw unknownKey(model, 'cuda', key, cudaKeys)
    yield [key, key === 'cudnn_conv_algo_search' ? (algorithmSearch[value] ?? value) : value]
  }
}

/** Triton's own keys of the accelerator `tensorrt`. All other keys are those of ONNX Runtime, which begin with `trt_`. */
const tensorRtKeys: Readonly<Record<string, string>> = {
  max_workspace_size_bytes: 'trt_max_workspace_size',
  max_partition_iterations: 'trt_max_partition_iterations',
  min_subgraph_size: 'trt_min_subgraph_size',
  int8_calibration_table_name: 'trt_int8_calibration_table_name',
  int8_use_native_calibration_table: 'trt_int8_use_native_calibration_table',
}

const precisions: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  FP32: [],
  FP16: [['trt_fp16_enable', '1']],
  INT8: [['trt_int8_enable', '1']],
}

const truth: Readonly<Record<string, string>> = { true: '1', false: '0' }

function* tensorRtOptions(
  model: string,
  parameters: ReadonlyMap<string, string>,
): Generator<readonly [string, string]> {
  for (const [key, value] of parameters) {
    if (key === 'precision_mode') {
      const options = precisions[value.toUpperCase()]
      if (options === undefined) {
        const text = `precision_mode of accelerator 'tensorrt' of model '${model}': expected FP32, FP16 or INT8, got '${value}'`
        throw new ServerError('INVALID_ARG', text)
      }
      yield* options
      continue
    }
    const name = tensorRtKeys[key] ?? key
    if (!/^trt_[a-z0-9_]+$/.test(name)) {
      throw unknownKey(model, 'tensorrt', key, ['precision_mode', ...Object.keys(tensorRtKeys)], ' or begin with trt_')
    }
    yield [name, truth[value.toLowerCase()] ?? value]
  }
}

function unknownKey(
  model: string,
  accelerator: string,
  key: string,
  known: readonly string[],
  otherwise = '',
): ServerError {
  const meant = nearestWord(key, known)
  const advice = meant === null ? `keys are ${known.join(', ')}${otherwise}` : `did you mean '${meant}'?`
  const text = `unknown parameter '${key}' is provided for accelerator '${accelerator}' of model '${model}': ${advice}`
  return new ServerError('INVALID_ARG', text)
}

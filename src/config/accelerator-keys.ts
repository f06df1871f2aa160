// Every key of `execution_accelerators { … { name parameters } }` that a model may have, as one table: the options that ONNX
// Runtime gets come from it, and so does what a configuration from the network may not name. Pure.

import { nearestWord } from '../base/nearest-word.ts'
import { ServerError } from '../base/server-error.ts'
import { problem, type ConfigProblem } from './config-problem.ts'
import type { ModelConfig } from './model-config.ts'

export type AcceleratorName = 'cuda' | 'tensorrt' | 'openvino' | 'dnnl'

type KeyForm = {
  readonly expected: string
  /** What ONNX Runtime is told; null: the text is refused. */
  readonly read: (text: string) => string | null
}

type KeyRow = {
  readonly form: KeyForm
  /** ONNX Runtime's name, where Triton has another one. */
  readonly option?: string
  /** The value names a file to read, to write or to run. In a configuration from the network it must be what config.pbtxt says. */
  readonly isOperators?: true
  /** The value becomes a part of the name of a file. */
  readonly isFileName?: true
}

const truth: Readonly<Record<string, string>> = { true: '1', on: '1', 1: '1', false: '0', off: '0', 0: '0' }
const searches: Readonly<Record<string, string>> = { 0: 'EXHAUSTIVE', 1: 'HEURISTIC', 2: 'DEFAULT' }
const strategies: Readonly<Record<string, string>> = { 0: 'kNextPowerOfTwo', 1: 'kSameAsRequested' }

const wordFrom = (words: Readonly<Record<string, string>>): KeyForm => ({
  expected: [...Object.keys(words), ...Object.values(words)].join(', '),
  read: (text) =>
    Object.hasOwn(words, text) ? (words[text] ?? null) : Object.values(words).includes(text) ? text : null,
})

/** As Triton reads truth, and as ONNX Runtime writes it. */
const yesOrNo: KeyForm = { expected: '0, 1, true, false, on or off', read: (text) => truth[text.toLowerCase()] ?? null }
const whole: KeyForm = {
  expected: 'a whole number of 0 or more',
  read: (text) => (/^\d{1,20}$/.test(text) ? text : null),
}
const integer: KeyForm = { expected: 'a whole number', read: (text) => (/^-?\d{1,10}$/.test(text) ? text : null) }
/** TensorRT records one graph, of the first shape and its addresses, and answers every later run with it. */
const neverYes: KeyForm = {
  expected: '0, because TensorRT would answer batches of other shapes with the graph of the first',
  read: (text) => (truth[text.toLowerCase()] === '0' ? '0' : null),
}
const anyText: KeyForm = { expected: '', read: (text) => text }

const rowsOf = (keys: readonly string[], row: KeyRow): Record<string, KeyRow> =>
  Object.fromEntries(keys.map((key) => [key, row]))

// prettier-ignore
const cudaKeys: Readonly<Record<string, KeyRow>> = {
  ...rowsOf(
    [
      'cudnn_conv1d_pad_to_nc1d', 'cudnn_conv_use_max_workspace', 'do_copy_in_default_stream', 'enable_cudnn',
      'enable_skip_layer_norm_strict_mode', 'fuse_conv_bias', 'prefer_nhwc', 'tunable_op_enable', 'tunable_op_tuning_enable',
      'use_ep_level_unified_stream', 'use_tf32',
    ],
    { form: yesOrNo },
  ),
  ...rowsOf(['tunable_op_max_tuning_duration_ms', 'sdpa_kernel'], { form: integer }),
  gpu_mem_limit: { form: whole },
  arena_extend_strategy: { form: wordFrom(strategies) },
  cudnn_conv_algo_search: { form: wordFrom(searches) },
}

// prettier-ignore
const tensorRtKeys: Readonly<Record<string, KeyRow>> = {
  // Triton's own names.
  max_workspace_size_bytes: { form: whole, option: 'trt_max_workspace_size' },
  max_partition_iterations: { form: whole, option: 'trt_max_partition_iterations' },
  min_subgraph_size: { form: whole, option: 'trt_min_subgraph_size' },
  int8_calibration_table_name: { form: anyText, option: 'trt_int8_calibration_table_name', isFileName: true },
  int8_use_native_calibration_table: { form: yesOrNo, option: 'trt_int8_use_native_calibration_table' },
  // ONNX Runtime's.
  ...rowsOf(
    [
      'trt_bf16_enable', 'trt_build_heuristics_enable', 'trt_context_memory_sharing_enable', 'trt_detailed_build_log',
      'trt_dla_enable', 'trt_dump_ep_context_model', 'trt_dump_subgraphs', 'trt_engine_cache_enable',
      'trt_engine_decryption_enable', 'trt_engine_hw_compatible', 'trt_force_sequential_engine_build', 'trt_force_timing_cache',
      'trt_fp16_enable', 'trt_int8_enable', 'trt_int8_use_native_calibration_table', 'trt_layer_norm_fp32_fallback',
      'trt_load_user_initializer', 'trt_sparsity_enable', 'trt_timing_cache_enable', 'trt_weight_stripped_engine_enable',
    ],
    { form: yesOrNo },
  ),
  trt_cuda_graph_enable: { form: neverYes },
  ...rowsOf(['trt_max_partition_iterations', 'trt_max_workspace_size', 'trt_min_subgraph_size'], { form: whole }),
  ...rowsOf(
    ['trt_auxiliary_streams', 'trt_builder_optimization_level', 'trt_dla_core', 'trt_ep_context_embed_mode'],
    { form: integer },
  ),
  ...rowsOf(
    [
      'trt_op_types_to_exclude', 'trt_preview_features', 'trt_profile_max_shapes', 'trt_profile_min_shapes',
      'trt_profile_opt_shapes', 'trt_tactic_sources',
    ],
    { form: anyText },
  ),
  ...rowsOf(['trt_engine_cache_prefix', 'trt_int8_calibration_table_name'], { form: anyText, isFileName: true }),
  ...rowsOf(
    [
      'trt_engine_cache_path', 'trt_engine_decryption_lib_path', 'trt_ep_context_file_path', 'trt_extra_plugin_lib_paths',
      'trt_onnx_model_folder_path', 'trt_timing_cache_path',
    ],
    { form: anyText, isOperators: true },
  ),
}

// prettier-ignore
const openVinoKeys: Readonly<Record<string, KeyRow>> = {
  ...rowsOf(
    [
      'device_id', 'device_luid', 'device_type', 'disable_dynamic_shapes', 'enable_causallm', 'enable_opencl_throttling',
      'enable_qdq_optimizer', 'layout', 'model_priority', 'num_of_threads', 'num_streams', 'precision', 'reshape_input',
    ],
    { form: anyText },
  ),
  ...rowsOf(['cache_dir', 'load_config'], { form: anyText, isOperators: true }),
}

const keysOf: Readonly<Record<AcceleratorName, Readonly<Record<string, KeyRow>>>> = {
  cuda: cudaKeys,
  tensorrt: tensorRtKeys,
  openvino: openVinoKeys,
  dnnl: { use_arena: { form: yesOrNo } },
}

const ofInstance = 'the GPU is that of the instance: instance_group { gpus: [ … ] }'
const byServer = 'the server sets it'
/** An address of memory: with any other number ONNX Runtime reads what is not its own, and the process ends. */
const isAddress = 'it is an address in the memory of the process'

/** Keys of ONNX Runtime that are not for a model, and why. */
const refusedKeys: Readonly<Record<AcceleratorName, Readonly<Record<string, string>>>> = {
  cuda: {
    device_id: ofInstance,
    enable_cuda_graph: 'write optimization { cuda { graphs: true } }',
    default_memory_arena_cfg: byServer,
    gpu_external_alloc: byServer,
    gpu_external_empty_cache: byServer,
    gpu_external_free: byServer,
    has_user_compute_stream: byServer,
    user_compute_stream: byServer,
  },
  tensorrt: {
    device_id: ofInstance,
    has_user_compute_stream: byServer,
    user_compute_stream: byServer,
    trt_onnx_bytestream: isAddress,
    trt_onnx_bytestream_size: isAddress,
    trt_external_data_bytestream: isAddress,
    trt_external_data_bytestream_size: isAddress,
  },
  openvino: { context: isAddress },
  dnnl: { threadpool_args: isAddress },
}

const precisions: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  FP32: [],
  FP16: [['trt_fp16_enable', '1']],
  BF16: [['trt_bf16_enable', '1']],
  INT8: [['trt_int8_enable', '1']],
}

type Options = readonly (readonly [option: string, value: string])[]

/** The options of ONNX Runtime for the parameters of an accelerator. Throws INVALID_ARG for a key or a value that it does not have. */
export function acceleratorOptions(
  model: string,
  accelerator: AcceleratorName,
  parameters: ReadonlyMap<string, string>,
): Options {
  return [...parameters].flatMap(([key, value]) => {
    const read = readKey(model, accelerator, key, value)
    if (typeof read === 'string') throw new ServerError('INVALID_ARG', read)
    return read
  })
}

const lists = ['gpu_execution_accelerator', 'cpu_execution_accelerator'] as const
type AcceleratorList = (typeof lists)[number]
type Accelerator = { readonly name: string; readonly parameters: ReadonlyMap<string, string> }

export const acceleratorsOf = (config: ModelConfig, list: AcceleratorList): readonly Accelerator[] => {
  const accelerators = config.optimization?.executionAccelerators
  if (list === 'gpu_execution_accelerator') return accelerators?.gpuExecutionAccelerator ?? []
  return accelerators?.cpuExecutionAccelerator ?? []
}

export const allAccelerators = (config: ModelConfig): readonly Accelerator[] =>
  lists.flatMap((list) => acceleratorsOf(config, list))

/** Which names each list takes. */
const namesIn: Readonly<Record<AcceleratorList, Readonly<Record<string, AcceleratorName>>>> = {
  gpu_execution_accelerator: { cuda: 'cuda', tensorrt: 'tensorrt' },
  cpu_execution_accelerator: { openvino: 'openvino', onednn: 'dnnl', oneDNN: 'dnnl', dnnl: 'dnnl' },
}

/** Null: nobody knows the name. */
export const acceleratorNamed = (list: AcceleratorList, name: string): AcceleratorName | null =>
  Object.hasOwn(namesIn[list], name) ? (namesIn[list][name] ?? null) : null

/**
 * A name, a key or a value that nobody knows is refused on every machine: a setting that is a typing error must not look as if it
 * worked, and a repository that loads without a GPU shall load with one.
 */
export function* acceleratorProblems(config: ModelConfig): Generator<ConfigProblem> {
  for (const list of lists) {
    for (const [index, { name, parameters }] of acceleratorsOf(config, list).entries()) {
      const path = `optimization.execution_accelerators.${list}[${index}]`
      const accelerator = acceleratorNamed(list, name)
      if (accelerator === null) {
        yield problem(`${path}.name`, unknownAccelerator(config.name, list, name))
        continue
      }
      for (const [key, value] of parameters) {
        const read = readKey(config.name, accelerator, key, value)
        if (typeof read === 'string') yield problem(`${path}.parameters`, read)
      }
    }
  }
}

function unknownAccelerator(model: string, list: AcceleratorList, name: string): string {
  const names = Object.keys(namesIn[list])
  const meant = nearestWord(name, names)
  const advice = meant === null ? `expected one of ${names.join(', ')}` : `did you mean '${meant}'?`
  // The first half is Triton's.
  return `unknown Execution Accelerator '${name}' is requested in ${list} of model '${model}': ${advice}`
}

/** A text says what is wrong. */
function readKey(model: string, accelerator: AcceleratorName, key: string, value: string): Options | string {
  if (accelerator === 'tensorrt' && key === 'precision_mode') return readPrecision(model, value)
  const rows = keysOf[accelerator]
  const row = Object.hasOwn(rows, key) ? rows[key] : undefined
  if (row === undefined) return unknownKey(model, accelerator, key)
  // As Triton: a key without a value says nothing.
  if (value === '') return []
  const option = row.form.read(value)
  if (option !== null) return [[row.option ?? key, option]]
  return `parameter '${key}' of accelerator '${accelerator}' of model '${model}' must be ${row.form.expected}, got '${value}'`
}

function readPrecision(model: string, mode: string): Options | string {
  const options = precisions[mode.toUpperCase()]
  if (options !== undefined) return options
  // The first half is Triton's.
  return `unsupported precision mode '${mode}' is requested: precision_mode of accelerator 'tensorrt' of model '${model}' must be FP32, FP16, BF16 or INT8`
}

function unknownKey(model: string, accelerator: AcceleratorName, key: string): string {
  const refused = refusedKeys[accelerator]
  if (Object.hasOwn(refused, key)) {
    return `parameter '${key}' of accelerator '${accelerator}' of model '${model}' is not for a model: ${refused[key]}`
  }
  const known = [...(accelerator === 'tensorrt' ? ['precision_mode'] : []), ...Object.keys(keysOf[accelerator])]
  const meant = nearestWord(key, known)
  const advice = meant === null ? `keys are ${known.join(', ')}` : `did you mean '${meant}'?`
  return `unknown parameter '${key}' is provided for accelerator '${accelerator}' of model '${model}': ${advice}`
}

/** What the value of the key must be where a configuration comes from the network; null: anything. Any accelerator may have the key. */
export function acceleratorPathBase(key: string): 'operator' | 'backend' | null {
  for (const rows of Object.values(keysOf)) {
    const row = Object.hasOwn(rows, key) ? rows[key] : undefined
    if (row?.isOperators === true) return 'operator'
    if (row?.isFileName === true) return 'backend'
  }
  return null
}

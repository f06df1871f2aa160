import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configMessage, emptyModelConfig, type ModelConfig } from '../../config/model-config.ts'
import { cpuProviders, gpuProviders, idleGpuSettings, refuseUnknownAccelerators } from './execution-providers.ts'

type Given = Readonly<Record<string, Readonly<Record<string, string>>>>

const accelerators = (given: Given) =>
  Object.entries(given).map(([name, parameters]) => ({ name, parameters: new Map(Object.entries(parameters)) }))
const config = (gpu: Given, cpu: Given = {}, parameters: Readonly<Record<string, string>> = {}): ModelConfig => ({
  ...emptyModelConfig(),
  name: 'm',
  parameters: new Map(Object.entries(parameters).map(([key, stringValue]) => [key, { stringValue }])),
  optimization: configMessage('ModelOptimizationPolicy', {
    executionAccelerators: { gpuExecutionAccelerator: accelerators(gpu), cpuExecutionAccelerator: accelerators(cpu) },
  }),
})
const optionsOf = (config: ModelConfig, name: string): Record<string, string> =>
  Object.fromEntries(gpuProviders(config, 1).find((provider) => provider.name === name)?.options ?? [])

test('a model on a GPU has the CUDA provider, with Triton’s parameters and the accelerator’s own', () => {
  assert.equal(optionsOf(config({}), 'cuda')['device_id'], '1')
  assert.equal(optionsOf(config({}), 'cuda')['prefer_nhwc'], '1')
  assert.equal(optionsOf(config({}), 'cuda')['cudnn_conv_algo_search'], 'HEURISTIC')
  const given = optionsOf(
    config(
      { cuda: { prefer_nhwc: '0', use_tf32: 'off', do_copy_in_default_stream: '1' } },
      {},
      { gpu_mem_limit: '1 GiB', arena_extend_strategy: 'kSameAsRequested', cudnn_conv_algo_search: '0' },
    ),
    'cuda',
  )
  assert.deepEqual(given, {
    device_id: '1',
    prefer_nhwc: '0',
    cudnn_conv_algo_search: 'EXHAUSTIVE',
    gpu_mem_limit: '1073741824',
    arena_extend_strategy: 'kSameAsRequested',
    use_tf32: '0',
  })
  // Triton writes the strategy as a number, and no limit as the largest number of 64 bits.
  const numbered = config({}, {}, { arena_extend_strategy: '1', gpu_mem_limit: '18446744073709551615' })
  assert.equal(optionsOf(numbered, 'cuda')['arena_extend_strategy'], 'kSameAsRequested')
  assert.equal(optionsOf(numbered, 'cuda')['gpu_mem_limit'], undefined)
})

test('Triton’s parameters count more than the same keys of the accelerator, and these more than the defaults', () => {
  const keys = { cudnn_conv_algo_search: '2', gpu_mem_limit: '1000', arena_extend_strategy: '1' }
  const alone = optionsOf(config({ cuda: keys }), 'cuda')
  assert.equal(alone['cudnn_conv_algo_search'], 'DEFAULT')
  assert.equal(alone['gpu_mem_limit'], '1000')
  assert.equal(alone['arena_extend_strategy'], 'kSameAsRequested')
  const both = optionsOf(
    config(
      { cuda: keys },
      {},
      { cudnn_conv_algo_search: '0', gpu_mem_limit: '18446744073709551615', arena_extend_strategy: '0' },
    ),
    'cuda',
  )
  assert.equal(both['cudnn_conv_algo_search'], 'EXHAUSTIVE')
  assert.equal(both['gpu_mem_limit'], undefined)
  assert.equal(both['arena_extend_strategy'], 'kNextPowerOfTwo')
})

test('an accelerator that stands there twice has the keys of both', () => {
  const twice = config({ cuda: { use_tf32: '0', prefer_nhwc: '0' } })
  twice.optimization?.executionAccelerators?.gpuExecutionAccelerator.push(...accelerators({ cuda: { use_tf32: '1' } }))
  assert.equal(optionsOf(twice, 'cuda')['use_tf32'], '1')
  assert.equal(optionsOf(twice, 'cuda')['prefer_nhwc'], '0')
})

/** What the README of Triton's backend names, with a value for each. */
const keysOfTriton: Readonly<Record<string, string>> = {
  precision_mode: 'BF16', max_workspace_size_bytes: '4294967296', trt_max_partition_iterations: '1000', trt_min_subgraph_size: '1',
  int8_calibration_table_name: 't', int8_use_native_calibration_table: 'true', trt_dla_enable: '0', trt_dla_core: '0',
  trt_engine_cache_enable: '1', trt_engine_cache_path: '/e', trt_engine_cache_prefix: 'p', trt_dump_subgraphs: 'false',
  trt_force_sequential_engine_build: '0', trt_context_memory_sharing_enable: '1', trt_layer_norm_fp32_fallback: 'on',
  trt_timing_cache_enable: '1', trt_timing_cache_path: '/t', trt_force_timing_cache: '0', trt_detailed_build_log: 'OFF',
  trt_build_heuristics_enable: '0', trt_sparsity_enable: '1', trt_builder_optimization_level: '3', trt_auxiliary_streams: '-1',
  trt_tactic_sources: '-CUDNN,+CUBLAS', trt_extra_plugin_lib_paths: '/lib.so', trt_profile_min_shapes: 'x:1x3',
  trt_profile_max_shapes: 'x:8x3', trt_profile_opt_shapes: 'x:4x3', trt_cuda_graph_enable: 'False', trt_dump_ep_context_model: '0',
  trt_ep_context_file_path: '/c', trt_ep_context_embed_mode: '1',
} // prettier-ignore

test('every key of Triton’s accelerator is taken, with ONNX Runtime’s words for truth', () => {
  const options = optionsOf(config({ tensorrt: keysOfTriton }), 'tensorrt')
  assert.equal(Object.keys(options).length, Object.keys(keysOfTriton).length + 1)
  assert.equal(options['trt_bf16_enable'], '1')
  assert.equal(options['trt_layer_norm_fp32_fallback'], '1')
  assert.equal(options['trt_detailed_build_log'], '0')
  assert.equal(options['trt_cuda_graph_enable'], '0')
  // As Triton: full precision and a key without a value say nothing.
  const silent = optionsOf(config({ tensorrt: { precision_mode: 'FP32', trt_tactic_sources: '' } }), 'tensorrt')
  assert.deepEqual(silent, { device_id: '1' })
})

test('a key or a value that an accelerator does not have is refused by its name, also where no instance is on a GPU', () => {
  for (const [given, expected] of [
    [
      { tensorrt: { precision_mode: 'FP4' } },
      /unsupported precision mode 'FP4' is requested: .* must be FP32, FP16, BF16 or INT8/,
    ],
    [
      { tensorrt: { workspace: '1' } },
      /unknown parameter 'workspace' is provided for accelerator 'tensorrt' of model 'm'/,
    ],
    [{ tensorrt: { trt_fp61_enable: '1' } }, /did you mean 'trt_fp16_enable'/],
    [{ tensorrt: { trt_dla_core: 'zero' } }, /'trt_dla_core' .* must be a whole number, got 'zero'/],
    [{ tensorrt: { trt_cuda_graph_enable: '1' } }, /must be 0, because TensorRT would answer batches of other shapes/],
    [{ tensorrt: { device_id: '0' } }, /'device_id' .* is not for a model: .*instance_group/],
    [{ cuda: { prefer_nhcw: '1' } }, /did you mean 'prefer_nhwc'/],
    [{ cuda: { use_tf32: 'maybe' } }, /'use_tf32' .* must be 0, 1, true, false, on or off, got 'maybe'/],
    [{ cuda: { arena_extend_strategy: '2' } }, /must be 0, 1, kNextPowerOfTwo, kSameAsRequested, got '2'/],
    [{ cuda: { enable_cuda_graph: '1' } }, /'enable_cuda_graph' .* not for a model: write optimization \{ cuda/],
  ] as const) {
    assert.throws(() => refuseUnknownAccelerators(config(given)), expected)
    assert.throws(() => gpuProviders(config(given), 0), expected)
  }
  assert.throws(
    () => refuseUnknownAccelerators(config({}, { openvino: { cash_dir: 'x' } })),
    /did you mean 'cache_dir'/,
  )
})

test('no model names an address in the memory of the process', () => {
  for (const [gpu, cpu] of [
    [{ tensorrt: { trt_onnx_bytestream: '4096' } }, {}],
    [{ tensorrt: { trt_external_data_bytestream: '4096' } }, {}],
    [{ cuda: { user_compute_stream: '4096' } }, {}],
    [{ cuda: { gpu_external_alloc: '4096' } }, {}],
    [{}, { openvino: { context: '0x1000' } }],
    [{}, { onednn: { threadpool_args: '4096' } }],
  ] as const) {
    assert.throws(() => refuseUnknownAccelerators(config(gpu, cpu)), /is not for a model/)
  }
})

test('TensorRT comes before CUDA, and has ONNX Runtime’s options for Triton’s keys', () => {
  const providers = gpuProviders(config({ tensorrt: { precision_mode: 'FP16' } }), 0)
  assert.deepEqual(
    providers.map(({ name }) => name),
    ['tensorrt', 'cuda'],
  )
  const given = optionsOf(
    config({
      tensorrt: {
        precision_mode: 'INT8',
        max_workspace_size_bytes: '1073741824',
        int8_calibration_table_name: 'table',
        int8_use_native_calibration_table: 'true',
        trt_engine_cache_enable: 'true',
        trt_engine_cache_path: '/engines',
        trt_profile_min_shapes: 'x:1x3',
        trt_profile_max_shapes: 'x:32x3',
        min_subgraph_size: '5',
      },
    }),
    'tensorrt',
  )
  assert.deepEqual(given, {
    device_id: '1',
    trt_int8_enable: '1',
    trt_max_workspace_size: '1073741824',
    trt_int8_calibration_table_name: 'table',
    trt_int8_use_native_calibration_table: '1',
    trt_engine_cache_enable: '1',
    trt_engine_cache_path: '/engines',
    trt_profile_min_shapes: 'x:1x3',
    trt_profile_max_shapes: 'x:32x3',
    trt_min_subgraph_size: '5',
  })
})

test('settings for GPUs are named where no instance is on one', () => {
  const given = config({ tensorrt: {} })
  if (given.optimization !== null)
    given.optimization.cuda = configMessage('ModelOptimizationPolicy.Cuda', { graphs: true })
  const told = [...idleGpuSettings(given)]
  assert.deepEqual(
    told.map((text) => text.split(' has no effect')[0]),
    ["gpu_execution_accelerator 'tensorrt'", 'optimization.cuda.graphs'],
  )
  given.instanceGroup = [configMessage('ModelInstanceGroup', { kind: 'KIND_GPU' })]
  assert.deepEqual([...idleGpuSettings(given)], [])
})

test('an accelerator of the CPU is used where the library has it', () => {
  const asked = config({}, { openvino: {}, onednn: {} })
  assert.deepEqual(cpuProviders(asked, ['CPUExecutionProvider']).absent, ['openvino', 'onednn'])
  assert.deepEqual(cpuProviders(asked, ['DnnlExecutionProvider']).providers, [{ name: 'dnnl', options: [] }])
})

test('OpenVINO computes on the CPU unless the model says otherwise, as with Triton', () => {
  const optionsFor = (keys: Readonly<Record<string, string>>) =>
    Object.fromEntries(
      cpuProviders(config({}, { openvino: keys }), ['OpenVINOExecutionProvider']).providers[0]?.options ?? [],
    )
  assert.deepEqual(optionsFor({}), { device_type: 'CPU' })
  assert.deepEqual(optionsFor({ device_type: 'GPU.0', num_streams: '2' }), { device_type: 'GPU.0', num_streams: '2' })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configMessage, emptyModelConfig, type ModelConfig } from '../../config/model-config.ts'
import { cpuProviders, gpuProviders, idleGpuSettings } from './execution-providers.ts'

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
      { cuda: { prefer_nhwc: '0', cudnn_conv_algo_search: '2', use_tf32: '0' } },
      {},
      { gpu_mem_limit: '1 GiB', arena_extend_strategy: 'kSameAsRequested', cudnn_conv_algo_search: '0' },
    ),
    'cuda',
  )
  assert.deepEqual(given, {
    device_id: '1',
    prefer_nhwc: '0',
    cudnn_conv_algo_search: 'DEFAULT',
    gpu_mem_limit: '1073741824',
    arena_extend_strategy: 'kSameAsRequested',
    use_tf32: '0',
  })
  assert.throws(() => gpuProviders(config({ cuda: { prefer_nhcw: '1' } }), 0), /did you mean 'prefer_nhwc'/)
  const graphs = config({ cuda: { enable_cuda_graph: '1' } })
  assert.throws(() => gpuProviders(graphs, 0), /'enable_cuda_graph' .* not for a model: write optimization \{ cuda/)
  // Triton writes the strategy as a number, and no limit as the largest number of 64 bits.
  const numbered = config({}, {}, { arena_extend_strategy: '1', gpu_mem_limit: '18446744073709551615' })
  assert.equal(optionsOf(numbered, 'cuda')['arena_extend_strategy'], 'kSameAsRequested')
  assert.equal(optionsOf(numbered, 'cuda')['gpu_mem_limit'], undefined)
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
  assert.throws(() => gpuProviders(config({ tensorrt: { precision_mode: 'FP4' } }), 0), /expected FP32, FP16 or INT8/)
  assert.throws(() => gpuProviders(config({ tensorrt: { workspace: '1' } }), 0), /unknown parameter 'workspace'/)
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

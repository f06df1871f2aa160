import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyModelConfig, type ModelConfig } from '../../config/model-config.ts'
import { modelParameters } from '../../config/model-parameters.ts'
import { gpuSession, parseOnnxSettings } from './session-settings.ts'

const config = (parameters: Record<string, string>, fields: Partial<ModelConfig> = {}): ModelConfig => ({
  ...emptyModelConfig(),
  name: 'm',
  parameters: new Map(Object.entries(parameters).map(([key, stringValue]) => [key, { stringValue }])),
  ...fields,
})
const withLevel = (level: number): ModelConfig =>
  config(
    {},
    {
      optimization: {
        graph: { level },
        priority: 'PRIORITY_DEFAULT',
        cuda: null,
        executionAccelerators: null,
        inputPinnedMemory: null,
        outputPinnedMemory: null,
        gatherKernelBufferThreshold: 0,
        eagerBatching: false,
      },
    },
  )

test('without parameters everything but the busy loop between runs is ONNX Runtime’s default, and nobody is warned', () => {
  const settings = parseOnnxSettings(config({}))
  assert.deepEqual(settings.session, {
    intraOpThreads: 0,
    cores: [],
    interOpThreads: 0,
    isParallel: false,
    graphLevel: 'all',
    hasMemoryArena: true,
    hasMemoryPattern: true,
    sessionEntries: [['session.force_spinning_stop', '1']],
    runEntries: [],
    customOpLibraries: [],
    providers: [],
  })
  assert.deepEqual([settings.execution, settings.maxExecutionMs, settings.warnings], [null, 0, []])
})

test('Triton’s parameters are understood', () => {
  const settings = parseOnnxSettings(
    config({
      intra_op_thread_count: '3',
      inter_op_thread_count: '2',
      execution_mode: '1',
      enable_mem_arena: '0',
      enable_mem_pattern: 'false',
      'memory.enable_memory_arena_shrinkage': 'cpu:0',
      'session.use_device_allocator_for_initializers': '1',
      'session.force_spinning_stop': '0',
      execution: 'offloaded',
      max_execution_ms: '250',
    }),
  )
  assert.deepEqual(settings.session, {
    intraOpThreads: 3,
    cores: [],
    interOpThreads: 2,
    isParallel: true,
    graphLevel: 'all',
    hasMemoryArena: false,
    hasMemoryPattern: false,
    sessionEntries: [
      ['session.use_device_allocator_for_initializers', '1'],
      ['session.force_spinning_stop', '0'],
    ],
    runEntries: [['memory.enable_memory_arena_shrinkage', 'cpu:0']],
    customOpLibraries: [],
    providers: [],
  })
  assert.deepEqual([settings.execution, settings.maxExecutionMs, settings.warnings], ['offloaded', 250, []])
})

test('truth has Triton’s words, and a number of threads below 0 means no wish', () => {
  for (const [text, isOn] of [
    ['on', true],
    ['TRUE', true],
    ['Off', false],
    ['0', false],
  ] as const) {
    assert.equal(parseOnnxSettings(config({ enable_mem_arena: text })).session.hasMemoryArena, isOn)
  }
  assert.equal(parseOnnxSettings(config({ intra_op_thread_count: '-1' })).session.intraOpThreads, 0)
})

test('graph levels are Triton’s: -1 basic, 0 all, 1 extended, 2 disabled', () => {
  const levels = [-1, 0, 1, 2].map((level) => parseOnnxSettings(withLevel(level)).session.graphLevel)
  assert.deepEqual(levels, ['basic', 'all', 'extended', 'disabled'])
  assert.match(parseOnnxSettings(withLevel(7)).warnings.join(), /optimization.graph.level 7/)
})

test('a value that makes no sense is refused with the parameter, what is expected and what came', () => {
  for (const [key, value] of [
    ['intra_op_thread_count', '1025'],
    ['intra_op_thread_count', 'many'],
    ['execution_mode', '2'],
    ['enable_mem_arena', 'maybe'],
    ['execution', 'somewhere'],
    ['max_execution_ms', '1.5'],
  ] as const) {
    assert.throws(
      () => parseOnnxSettings(config({ [key]: value })),
      (error: Error) => error.message.includes(`'${key}'`) && error.message.includes(`'${value}'`),
    )
  }
})

test("a parameter of the server's own needs no warning, one that nobody knows does", () => {
  const servers = Object.entries(modelParameters).filter(([, { backends }]) => backends === null)
  const own = Object.fromEntries(servers.map(([key]) => [key, '1']))
  assert.deepEqual(parseOnnxSettings(config({ ...own, pad_inputs: 'X', 'pad_value.X': '1' })).warnings, [])
  assert.match(parseOnnxSettings(config({ lasy: 'true' })).warnings.join(), /'lasy' is not known/)
})

test('an accelerator that nobody knows is refused by its name, on machines without a GPU too', () => {
  for (const list of ['gpuExecutionAccelerator', 'cpuExecutionAccelerator'] as const) {
    const accelerated = withLevel(0)
    const none = { gpuExecutionAccelerator: [], cpuExecutionAccelerator: [] }
    const executionAccelerators = { ...none, [list]: [{ name: 'nonsense', parameters: new Map() }] }
    const optimization =
      accelerated.optimization === null ? null : { ...accelerated.optimization, executionAccelerators }
    assert.throws(
      () => parseOnnxSettings({ ...accelerated, optimization }),
      /unknown Execution Accelerator 'nonsense' is requested in [gc]pu_execution_accelerator of model 'm'/,
    )
  }
})

test('batches on a GPU have a few sizes with CUDA graphs, the sizes of a list, or those that came', () => {
  const cuda = { graphs: true, busyWaitEvents: false, graphSpec: [], outputCopyStream: false }
  const of = (parameters: Record<string, string>, fields: Partial<ModelConfig> = {}) =>
    parseOnnxSettings(config(parameters, { maxBatchSize: 24, ...fields })).gpu.batchSizes
  const { optimization } = withLevel(0)
  assert.ok(optimization !== null)
  const graphs = { ...optimization, cuda }
  const spec = { batchSize: 6, input: new Map(), graphLowerBound: null }
  assert.deepEqual(of({}), [])
  assert.deepEqual(of({}, { optimization: graphs }), [1, 2, 4, 8, 16, 24])
  assert.deepEqual(of({}, { optimization: { ...graphs, cuda: { ...cuda, graphSpec: [spec] } } }), [6, 24])
  assert.deepEqual(of({ gpu_batch_sizes: 'off' }, { optimization: graphs }), [])
  assert.deepEqual(of({ gpu_batch_sizes: '8, 4,99' }), [4, 8, 24])
  assert.deepEqual(of({ gpu_batch_sizes: 'auto' }, { maxBatchSize: 0 }), [])
  assert.throws(() => of({ gpu_batch_sizes: '4,none' }), /'gpu_batch_sizes' .*whole numbers above 0.*got '4,none'/)
})

test('CUDA graphs are refused beside what they do not go with', () => {
  const { optimization } = withLevel(0)
  assert.ok(optimization !== null)
  const cuda = { graphs: true, busyWaitEvents: false, graphSpec: [], outputCopyStream: false }
  const session = (parameters: Record<string, string>, keys: Record<string, string> = {}, name = 'cuda') => {
    const accelerator = { name, parameters: new Map(Object.entries(keys)) }
    const executionAccelerators = { gpuExecutionAccelerator: [accelerator], cpuExecutionAccelerator: [] }
    const model = config(parameters, { optimization: { ...optimization, cuda, executionAccelerators } })
    return gpuSession(parseOnnxSettings(model), model, 0)
  }
  assert.ok(session({}).providers[0]?.options.some(([key, value]) => key === 'enable_cuda_graph' && value === '1'))
  assert.throws(() => session({}, { fuse_conv_bias: '1' }), /model 'm' has CUDA graphs .* and fuse_conv_bias/)
  assert.throws(() => session({}, {}, 'tensorrt'), /model 'm' has CUDA graphs .* and the accelerator 'tensorrt'/)
  const shrinking = { 'memory.enable_memory_arena_shrinkage': 'gpu:0' }
  assert.throws(() => session(shrinking), /has CUDA graphs .*'memory.enable_memory_arena_shrinkage'/)
})

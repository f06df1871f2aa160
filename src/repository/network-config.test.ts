import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { namedPaths, pathFields } from '../config/config-paths.ts'
import { emptyMessage, messageSchema, modelConfigSchema } from '../config/model-config-schema.ts'
import { configMessage, emptyModelConfig, type ModelConfig } from '../config/model-config.ts'
import { modelParameters, type ParameterRow } from '../config/model-parameters.ts'
import type { FieldSchema, MessageSchema } from '../protobuf/message-schema.ts'
import { refuseOutsidePaths } from './network-config.ts'

/** Texts of a configuration that nothing opens, runs or looks for. A new field goes here or into `pathFields`. */
const names = [
  'ModelConfig.name', 'ModelConfig.platform', 'ModelConfig.metric_tags', 'ModelRateLimiter.Resource.name', 'ModelInstanceGroup.name',
  'ModelInstanceGroup.profile', 'ModelInstanceGroup.host_policy', 'ModelInput.name', 'ModelOutput.name', 'BatchInput.target_name',
  'BatchInput.source_input', 'BatchOutput.target_name', 'BatchOutput.source_input', 'ModelSequenceBatching.ControlInput.name',
  'ModelSequenceBatching.InitialState.name', 'ModelSequenceBatching.State.input_name', 'ModelSequenceBatching.State.output_name',
  'ModelEnsembling.Step.model_name', 'ModelEnsembling.Step.input_map', 'ModelEnsembling.Step.output_map',
  'ModelEnsembling.Step.model_namespace', 'ModelWarmup.name', 'ModelMetrics.MetricControl.MetricIdentifier.family',
  'ModelOptimizationPolicy.ExecutionAccelerators.Accelerator.name',
  // By key: see below.
  'ModelOptimizationPolicy.ExecutionAccelerators.Accelerator.parameters',
  // One agent is built in. Its files are read below the model's folder: see test/scenario/path-attacks.test.ts.
  'ModelRepositoryAgents.Agent.name', 'ModelRepositoryAgents.Agent.parameters',
  // By key: see below.
  'ModelParameter.string_value',
] // prettier-ignore

/** Parameters of any text that name no file. */
const textParameters = [
  'pad_inputs', 'pad_buckets', 'pad_value', 'pad_outputs', 'MAX_BATCH_VOLUME_BYTES', 'memory.enable_memory_arena_shrinkage',
  'session.use_device_allocator_for_initializers', 'INFERENCE_MODE', 'INTRA_OP_THREAD_COUNT', 'NUM_THREADS', 'INTER_OP_THREAD_COUNT',
  'NUM_INTEROP_THREADS', 'DISABLE_OPTIMIZED_EXECUTION', 'ENABLE_JIT_EXECUTOR', 'ENABLE_JIT_PROFILING', 'ENABLE_TENSOR_FUSER',
  'DISABLE_CUDNN', 'ENABLE_CACHE_CLEANING', 'ENABLE_WEIGHT_SHARING', 'TORCH_COMPILE_OPTIONAL_PARAMETERS', 'TF_SIGNATURE_DEF',
  'TF_GRAPH_TAG', 'TF_NUM_INTRA_THREADS', 'TF_NUM_INTER_THREADS', 'TARGET_DEVICE', 'PERFORMANCE_HINT', 'INFERENCE_NUM_THREADS',
  'CPU_THREADS_NUM', 'COMPILATION_NUM_THREADS', 'NUM_STREAMS', 'CPU_THROUGHPUT_STREAMS', 'HINT_PRECISION', 'HINT_BF16',
  'ENFORCE_BF16', 'SKIP_DYNAMIC_BATCHSIZE', 'ENABLE_BATCH_PADDING', 'threads', 'predict_proba', 'output_class', 'skops_trusted',
  // A text that is run with bounds, names, and files that must lie below the model's folder (llama-settings.ts).
  'chat_template', 'upstream_model', 'predict.input', 'predict.output', 'lora_adapters',
] // prettier-ignore

const rows = Object.entries(modelParameters as Record<string, ParameterRow<unknown>>)
const pathParameters = rows.filter(([, row]) => row.isPath === true).map(([key]) => key)
const operatorsParameters = rows.filter(([, row]) => row.isOperators === true).map(([key]) => key)

type Step = { readonly schema: MessageSchema; readonly field: FieldSchema }
/** Every text field of the schema, with the way to it. */
function* textFields(schema: MessageSchema, way: readonly Step[] = []): Generator<readonly Step[]> {
  for (const field of schema.fields) {
    const here = [...way, { schema, field }]
    if (field.message !== null) yield* textFields(field.message, here)
    else if (field.type === 'string') yield here
  }
}
const nameOf = (way: readonly Step[]): string => {
  const { schema, field } = way.at(-1) as Step
  return `${schema.name}.${field.wireName}`
}

test('every text field of a configuration is a path with a row, or a name; so is every parameter of any text', () => {
  const found = new Set([...textFields(modelConfigSchema())].map(nameOf))
  assert.ok(found.size > 25)
  assert.deepEqual([...found].filter((each) => !(each in pathFields) && !names.includes(each)), []) // prettier-ignore
  for (const each of [...Object.keys(pathFields), ...names]) assert.ok(found.has(each), each)
  const anyText = rows.filter(([, row]) => row.rule.expected === '').map(([key]) => key)
  const known = new Set([...pathParameters, ...operatorsParameters, ...textParameters])
  assert.deepEqual(anyText.filter((key) => !known.has(key)), []) // prettier-ignore
  assert.ok(pathParameters.includes('EXECUTION_ENV_PATH') && pathParameters.includes('CPU_EXTENSION_PATH'))
})

/** A configuration with that value in that one field. */
function configWith(way: readonly Step[], value: string): ModelConfig {
  const put = (steps: readonly Step[], message: Record<string, unknown>): Record<string, unknown> => {
    const [{ field }, ...rest] = steps as [Step, ...Step[]]
    const inner = field.message === null ? value : put(rest, emptyMessage(messageSchema(field.message.name)))
    message[field.name] = field.kind === 'map' ? new Map([['k', inner]]) : field.kind === 'repeated' ? [inner] : inner
    return message
  }
  return put(way, emptyModelConfig() as unknown as Record<string, unknown>) as unknown as ModelConfig
}

const configWithParameter = (key: string, value: string): ModelConfig => {
  const config = emptyModelConfig()
  config.parameters.set(key, { stringValue: value })
  return config
}

let root: string
let place: Parameters<typeof refuseOutsidePaths>[1]
before(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'galatea-network-'))
  const modelDirectory = path.join(root, 'm')
  for (const folder of ['m/1', 'm/warmup', 'm/initial_state', 'm/env', 'outside', 'm2'])
    await mkdir(path.join(root, folder), { recursive: true })
  for (const folder of ['', '1', 'warmup', 'initial_state']) {
    await writeFile(path.join(modelDirectory, folder, 'file'), '')
    await symlink(path.join(root, 'outside'), path.join(modelDirectory, folder, 'link'))
  }
  await writeFile(path.join(root, 'outside', 'there'), '')
  place = { modelDirectory, versions: ['1'], ownConfig: null }
})
after(() => rm(root, { recursive: true }))

const isRefused = async (config: ModelConfig, where = place): Promise<boolean> =>
  refuseOutsidePaths(config, where).then(
    () => false,
    (error: Error) => error.message.endsWith('came with a load request'),
  )

const outside = (): string[] => [
  '/etc/passwd', '/nowhere', '../outside/there', '../../x', '../../../../../../etc/passwd', 'a/../../../m2/x', '../m2',
  path.join(root, 'outside/there'), path.join(root, 'm2'), 'link', 'link/there', 'link/nothing', './link/there', 'a\\..\\..\\x', 'x\0', '..', '/',
  '$$TRITON_MODEL_DIRECTORY/../outside/there', '$$TRITON_MODEL_DIRECTORY/link/there', `${path.join(root, 'm')}/../m2/x`,
  // The text leads back into the folder; the system would follow the link first.
  `http://host/../../../../../../../../..${path.join(root, 'm')}/x`, '$$TRITON_MODEL_DIRECTORY/link/../file', 'link/../file',
] // prettier-ignore

test('no path field takes a place outside the folder of the model, whether it is there or not', async () => {
  for (const way of textFields(modelConfigSchema())) {
    const base = pathFields[nameOf(way)]
    if (base === undefined) continue
    for (const value of outside()) {
      // One folder up from the folder of a version or of warm-up files is still inside the model's.
      const isStillInside = base !== 'model' && /^\.\.(\/\w|$)/.test(value)
      if (base === 'backend' ? !/[/\\\0]|^\.\.$/.test(value) : isStillInside) continue
      assert.ok(await isRefused(configWith(way, value)), `${nameOf(way)} '${value}'`)
    }
    for (const value of base === 'backend' ? ['model.py', 'python'] : ['file', 'new', 'new/deep/file', './file']) {
      assert.equal(await isRefused(configWith(way, value)), false, `${nameOf(way)} '${value}'`)
    }
  }
})

test('no path parameter does either', async () => {
  for (const key of pathParameters) {
    for (const value of [...outside(), 'env', './env', '$$TRITON_MODEL_DIRECTORY']) {
      assert.ok(await isRefused(configWithParameter(key, value)), `${key} '${value}'`)
    }
    for (const value of ['$$TRITON_MODEL_DIRECTORY/env', path.join(root, 'm', 'new.tar.gz'), '']) {
      assert.equal(await isRefused(configWithParameter(key, value)), false, `${key} '${value}'`)
    }
  }
})

test('an address and the name of a secret come from the operator alone, wherever their text seems to lead', async () => {
  assert.deepEqual(operatorsParameters, ['upstream_url', 'api_key_env'])
  for (const key of operatorsParameters) {
    for (const value of [...outside(), '$$TRITON_MODEL_DIRECTORY/env', path.join(root, 'm', 'file'), 'HOME']) {
      assert.ok(await isRefused(configWithParameter(key, value)), `${key} '${value}'`)
      const where = { ...place, ownConfig: configWithParameter(key, value) }
      assert.equal(await isRefused(configWithParameter(key, value), where), false, `${key} '${value}'`)
    }
  }
})

const configWithAccelerator = (name: string, key: string, value: string): ModelConfig => {
  const accelerator = { name, parameters: new Map([[key, value]]) }
  const executionAccelerators = { gpuExecutionAccelerator: [accelerator], cpuExecutionAccelerator: [] }
  return { ...emptyModelConfig(), optimization: configMessage('ModelOptimizationPolicy', { executionAccelerators }) }
}

test('files and libraries of accelerators come from the operator alone, and parts of file names have no slashes', async () => {
  for (const [name, key] of [
    ['tensorrt', 'trt_extra_plugin_lib_paths'],
    ['tensorrt', 'trt_engine_decryption_lib_path'],
    ['tensorrt', 'trt_engine_cache_path'],
    ['tensorrt', 'trt_timing_cache_path'],
    ['tensorrt', 'trt_ep_context_file_path'],
    ['tensorrt', 'trt_onnx_model_folder_path'],
    ['openvino', 'cache_dir'],
    ['openvino', 'load_config'],
  ] as const) {
    for (const value of [...outside(), 'file', '$$TRITON_MODEL_DIRECTORY/env']) {
      const config = configWithAccelerator(name, key, value)
      assert.ok(await isRefused(config), `${key} '${value}'`)
      assert.equal(await isRefused(config, { ...place, ownConfig: config }), false, `${key} '${value}'`)
    }
  }
  for (const key of ['trt_engine_cache_prefix', 'int8_calibration_table_name', 'trt_int8_calibration_table_name']) {
    assert.ok(await isRefused(configWithAccelerator('tensorrt', key, '../x')), key)
    assert.equal(await isRefused(configWithAccelerator('tensorrt', key, 'table.flatbuffers')), false, key)
  }
  assert.equal(await isRefused(configWithAccelerator('tensorrt', 'precision_mode', 'FP16')), false)
})

test("what the operator's own configuration names stays allowed, and nothing else", async () => {
  const ownConfig = configWithParameter('EXECUTION_ENV_PATH', '/opt/env')
  const where = { ...place, ownConfig }
  assert.equal(await isRefused(configWithParameter('EXECUTION_ENV_PATH', '/opt/env'), where), false)
  assert.ok(await isRefused(configWithParameter('EXECUTION_ENV_PATH', '/opt/env2'), where))
  assert.ok(await isRefused(configWithParameter('CPU_EXTENSION_PATH', '/opt/env'), where))
  assert.equal([...namedPaths(ownConfig)].length, 1)
})

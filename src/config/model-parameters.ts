// Every key of `parameters` in config.pbtxt that Galatea itself reads, as one table. The typed readers, the rules at load,
// the hints of `galatea check` and the table in docs/reference/config.md come from it. A model may have keys of its own.

import { nearestWord } from '../base/nearest-word.ts'
import { ServerError } from '../base/server-error.ts'
import { problem, type ConfigProblem } from './config-problem.ts'
import type { ModelConfig } from './model-config.ts'
import {
  anyText,
  batchSizes,
  byteCount,
  byteLimit,
  countUpTo,
  numberThat,
  oneOf,
  onlyTrue,
  trueOrFalse,
  wholeNumberUpTo,
  yes,
  zeroOrOne,
  type ParameterRule,
} from './parameter-rule.ts'
import { mostScaledInstances, needsInstancesMax, scaleObstacles } from './scale-limits.ts'
import { uploadParameterRows, type UploadParameter } from './upload-parameters.ts'

export type ParameterRow<Value> = {
  /** The backends whose models have the parameter; null: every model. */
  readonly backends: readonly string[] | null
  readonly rule: ParameterRule<Value>
  /** For docs/reference/config.md, with links from there. */
  readonly help: string
  /** What in the configuration speaks against this value. */
  readonly obstacles?: (config: ModelConfig, value: Value) => readonly string[]
  /** `<key>.<input>` gives one input a value of its own. */
  readonly isPerInput?: true
  /** The refusal names the model first, and then the parameter. */
  readonly isModelFirst?: true
  /** The value names a file or folder. In a configuration from the network it must lie in the model's folder. */
  readonly isPath?: true
  /** The value is the operator's alone: an address, or the name of a secret. A configuration from the network cannot change it. */
  readonly isOperators?: true
}

type Traits<Value> = Pick<ParameterRow<Value>, 'obstacles' | 'isPerInput' | 'isModelFirst' | 'isPath' | 'isOperators'>

const row = <Value>(
  backends: readonly string[] | null,
  rule: ParameterRule<Value>,
  help: string,
  traits: Traits<Value> = {},
): ParameterRow<Value> => ({ backends, rule, help, ...traits })

/** Rows that differ in nothing but the key. */
const rows = <Key extends string, Value>(keys: readonly Key[], one: ParameterRow<Value>) =>
  Object.fromEntries(keys.map((key) => [key, one])) as Record<Key, ParameterRow<Value>>

const every = null
const onnx = ['onnxruntime']
const typescript = ['typescript']
const identity = ['identity']
const llama = ['llamacpp']
const upstream = ['openai']
const trees = ['xgboost', 'lightgbm']
const inPython = ['python', 'torchserve', 'vllm', 'pytorch', 'tensorflow', 'openvino', 'sklearn', ...trees]

const modelFirst = { isModelFirst: true } as const
const perInput = { isPerInput: true } as const
const isPath = { isPath: true } as const
const isOperators = { isOperators: true } as const
const count = numberThat('an integer of 0 or more', (value) => Number.isSafeInteger(value) && value >= 0)
const seconds = numberThat('a number of seconds', (value) => Number.isFinite(value) && value >= 0)
const notNegative = numberThat('a number that is not negative', (value) => Number.isFinite(value) && value >= 0)
const sloMs = numberThat('a number of milliseconds above 0 and up to 3600000', (ms) => ms > 0 && ms <= 3_600_000)
const delayTargetMs = numberThat('a number of milliseconds from 0 to 3600000', (ms) => ms >= 0 && ms <= 3_600_000)
const threads = countUpTo(1024)
const wholeFrom = (least: number, most: number) =>
  numberThat(
    `a whole number from ${least} to ${most}`,
    (value) => Number.isSafeInteger(value) && value >= least && value <= most,
  )
const batchingLibrary = "Of Triton's custom batching libraries: accepted, with no effect"
const openVino = '[Settings of OpenVINO](../guide/openvino.md)'

function singleFlightObstacles(config: ModelConfig, isOn: boolean): string[] {
  if (!isOn) return []
  const obstacles: [what: string, isThere: boolean][] = [
    ['sequence batching', config.sequenceBatching !== null],
    ["the 'decoupled' transaction policy", config.modelTransactionPolicy?.decoupled ?? false],
    ['preserve_ordering', config.dynamicBatching?.preserveOrdering ?? false],
  ]
  return obstacles.filter(([, isThere]) => isThere).map(([what]) => `does not go with ${what}`)
}

const uploadRows = Object.fromEntries(
  uploadParameterRows.map(({ key, rule, help }) => [key, row(every, rule, help)]),
) as Record<UploadParameter, ParameterRow<unknown>>

// A value that a framework's backend reads in Python is any text here: the Python code refuses what it cannot read.
export const modelParameters = {
  lazy: row(
    every,
    trueOrFalse,
    '[Loaded on the first request](../guide/model-repository.md#models-that-load-on-demand)',
  ),
  gpu_memory_bytes: row(
    every,
    byteCount,
    'What the model takes of each GPU that it is on, for [`--model-memory-limit`](../guide/gpu.md#memory) before the first load, which measures it; without: the size of its files',
  ),
  gpu_placement: row(
    every,
    oneOf('all', 'most_free'),
    'On which of the GPUs of an instance group the model is: on all of them, as with Triton, or at each load on the one with the most free memory; models that load at the same time are on different ones',
  ),
  keep_warm: row(every, trueOrFalse, 'Once in memory the model stays there, whichever other model needs room'),
  idle_unload_secs: row(every, seconds, 'The model leaves the memory after so long without a request; 0: it stays'),
  instances_min: row(
    every,
    wholeFrom(1, mostScaledInstances),
    'The fewest [instances that follow load](../guide/autoscaling.md#instances-that-follow-load); 1',
    { obstacles: needsInstancesMax },
  ),
  instances_max: row(
    every,
    wholeFrom(1, mostScaledInstances),
    'The most of them; on each GPU where the instance group names GPUs. Without: the number of instances is fixed',
    { obstacles: scaleObstacles },
  ),
  instances_target: row(
    every,
    numberThat('a number above 0 and up to 1', (share) => share > 0 && share <= 1),
    'The share of the time in which each of them shall be busy; 0.7',
    { obstacles: needsInstancesMax },
  ),
  instances_forecast: row(
    every,
    trueOrFalse,
    "Whether [last week's load](../guide/autoscaling.md#forecast) brings instances before the load comes; `false`",
    { obstacles: needsInstancesMax },
  ),
  memory_bytes: row(every, byteCount, 'How much memory the model takes; without: measured'),
  chat_template: row(
    every,
    anyText,
    "The Jinja text that makes a prompt of a [chat](../guide/openai-clients.md#chat-templates); without: the one in the model's files",
  ),
  upstream_url: row(
    upstream,
    anyText,
    'The address of [another OpenAI server](../guide/which-engine.md#upstreams), as `https://host/v1`',
    isOperators,
  ),
  upstream_model: row(upstream, anyText, "The upstream's name of the model; without: the model's own name"),
  api_key_env: row(upstream, anyText, 'The environment variable with the key; without: `OPENAI_API_KEY`', isOperators),
  upstream_timeout_ms: row(upstream, wholeNumberUpTo(0x7fffffff), 'How long one answer may take; 600000'),
  upstream_max_concurrent: row(upstream, wholeNumberUpTo(4096), 'Calls of one instance that are under way at once; 64'),
  single_flight: row(
    every,
    trueOrFalse,
    '[Equal requests that come together run once](../guide/response-cache.md#requests-that-share-one-execution)',
    { obstacles: singleFlightObstacles },
  ),
  slo_ms: row(
    every,
    sloMs,
    'A [latency target](../guide/batching.md#a-latency-target-instead-of-a-delay), from which the scheduler chooses its delay',
    {
      obstacles: ({ dynamicBatching }) =>
        dynamicBatching === null ? ["needs 'dynamic_batching { }', whose delay it chooses"] : [],
    },
  ),
  queue_delay_target_ms: row(
    every,
    delayTargetMs,
    'How long requests may wait before an [overload](../guide/overload.md) is looked for, in milliseconds; 0: it is not looked for. In place of `--queue-delay-target`',
  ),
  run_failed_batches_alone: row(
    every,
    trueOrFalse,
    'Whether the requests of a [batch that failed](../guide/batching.md#when-a-batch-fails) run again, each alone; `true`',
  ),
  pad_inputs: row(
    every,
    anyText,
    'Inputs to [fill up to one length](../guide/batching.md#padding), with commas between',
  ),
  pad_buckets: row(every, anyText, 'Lengths to fill up to, ascending; without: the longest of the batch', perInput),
  pad_value: row(every, anyText, 'What to fill with; 0', perInput),
  pad_outputs: row(
    every,
    anyText,
    'Outputs to cut back, `name` or `name=input`; without: those that came out as long as the first padded input',
  ),
  TRITON_BATCH_STRATEGY_PATH: row(every, anyText, batchingLibrary, isPath),
  MAX_BATCH_VOLUME_BYTES: row(every, anyText, batchingLibrary),
  max_execution_ms: row(
    [...onnx, ...inPython, ...typescript, ...llama],
    wholeNumberUpTo(0x7fffffff),
    'An execution that takes longer is ended and its requests fail; an answer of `llamacpp` ends there with the reason `length`; 0: no limit',
  ),
  ...rows(
    ['intra_op_thread_count', 'inter_op_thread_count'],
    row(
      onnx,
      threads,
      "[Threads](../guide/onnx-models.md#settings-of-a-model) of one run; 0 or less: ONNX Runtime's choice",
    ),
  ),
  execution_mode: row(onnx, wholeNumberUpTo(1), '0 sequential, 1 parallel'),
  ...rows(
    ['enable_mem_arena', 'enable_mem_pattern'],
    row(onnx, zeroOrOne, '`0` switches the arena or the pattern off'),
  ),
  ...rows(
    ['memory.enable_memory_arena_shrinkage', 'session.use_device_allocator_for_initializers'],
    row(onnx, anyText, 'Handed on to ONNX Runtime'),
  ),
  'session.force_spinning_stop': row(
    onnx,
    zeroOrOne,
    '`0`: threads of a session wait for the next run in a busy loop; without: they sleep between runs',
  ),
  execution: row(
    onnx,
    oneOf('inline', 'offloaded'),
    '[Where the model runs](../guide/onnx-models.md#where-a-model-runs); without: by measured time',
  ),
  cudnn_conv_algo_search: row(
    onnx,
    oneOf('0', '1', '2', 'EXHAUSTIVE', 'HEURISTIC', 'DEFAULT'),
    'How cuDNN chooses its convolutions [on a GPU](../guide/gpu.md#settings-of-a-model): 0 tries all, 1 estimates, 2 takes the first',
  ),
  gpu_mem_limit: row(onnx, byteLimit, 'The most memory of a GPU that the arena of the model takes; without: all of it'),
  arena_extend_strategy: row(
    onnx,
    oneOf('0', '1', 'kNextPowerOfTwo', 'kSameAsRequested'),
    'By how much that arena grows when it is full: 0 by the next power of two, 1 by what is asked for',
  ),
  do_copy_in_default_stream: row(
    onnx,
    zeroOrOne,
    "Triton's; no effect: copies to and from a GPU always have streams of their own",
  ),
  gpu_batch_sizes: row(
    onnx,
    batchSizes,
    'Sizes that batches on a GPU are [filled up to](../guide/gpu.md#batches-of-a-few-sizes), with commas between; `auto`: 1, 2, 4, 8… and `max_batch_size`; without: `auto` with CUDA graphs, else `off`',
  ),
  EXECUTION_ENV_PATH: row(
    inPython,
    anyText,
    '[Which Python](../guide/python-models.md#which-python) runs the model',
    isPath,
  ),
  FORCE_CPU_ONLY_INPUT_TENSORS: row(
    ['python'],
    oneOf('yes', 'no'),
    '`no`: inputs in [CUDA shared memory](../guide/python-models.md#tensors-on-a-gpu) of the GPU of the instance stay there; `yes`, the default: a copy in memory of the host',
  ),
  AUTO_INSTALL_REQUIREMENTS: row(inPython, yes, "Installs the model's requirements into an environment of its own"),
  max_memory_bytes: row(inPython, count, 'Memory beyond it raises `MemoryError` in the model; 0: no limit'),
  max_initialize_ms: row(
    typescript,
    count,
    'How long [loading the file and `initialize`](../guide/typescript-models.md#when-a-model-misbehaves) may take',
    modelFirst,
  ),
  max_memory_mb: row(typescript, count, "The JavaScript heap of the model's worker", modelFirst),
  isolation: row(typescript, oneOf('thread', 'process'), 'What the model runs in', modelFirst),
  ...rows(
    [
      'INFERENCE_MODE', 'INTRA_OP_THREAD_COUNT', 'NUM_THREADS', 'INTER_OP_THREAD_COUNT', 'NUM_INTEROP_THREADS',
      'DISABLE_OPTIMIZED_EXECUTION', 'ENABLE_JIT_EXECUTOR', 'ENABLE_JIT_PROFILING', 'ENABLE_TENSOR_FUSER', 'DISABLE_CUDNN',
      'ENABLE_CACHE_CLEANING', 'ENABLE_WEIGHT_SHARING', 'TORCH_COMPILE_OPTIONAL_PARAMETERS',
    ], // prettier-ignore
    row(['pytorch'], anyText, '[Settings of PyTorch](../guide/pytorch.md#parameters)'),
  ),
  ...rows(
    ['TF_SIGNATURE_DEF', 'TF_GRAPH_TAG', 'TF_NUM_INTRA_THREADS', 'TF_NUM_INTER_THREADS'],
    row(['tensorflow'], anyText, '[Which part of the file](../guide/tensorflow.md), and threads'),
  ),
  ...rows(
    [
      'TARGET_DEVICE', 'PERFORMANCE_HINT', 'INFERENCE_NUM_THREADS', 'CPU_THREADS_NUM', 'COMPILATION_NUM_THREADS',
      'NUM_STREAMS', 'CPU_THROUGHPUT_STREAMS', 'HINT_PRECISION', 'HINT_BF16', 'ENFORCE_BF16',
      'SKIP_DYNAMIC_BATCHSIZE', 'ENABLE_BATCH_PADDING',
    ], // prettier-ignore
    row(['openvino'], anyText, openVino),
  ),
  ...rows(['CACHE_DIR', 'CPU_EXTENSION_PATH'], row(['openvino'], anyText, openVino, isPath)),
  threads: row(trees, anyText, 'Threads of one batch of [boosted trees](../guide/boosted-trees.md)'),
  ...rows(
    ['predict_proba', 'output_class'],
    row(['sklearn', ...trees], anyText, 'What an [output with a name of its own](../guide/boosted-trees.md) is'),
  ),
  skops_trusted: row(['sklearn'], anyText, 'Types in the file that [you trust](../guide/scikit-learn.md#pickles)'),
  ...rows(
    ['execute_delay_ms', 'instance_wise_delay_multiplier', 'creation_delay_sec'],
    row(
      identity,
      notNegative,
      'For tests of clients: how long an execution or the making of an instance takes',
      modelFirst,
    ),
  ),
  context_length: row(
    llama,
    wholeFrom(16, 16_777_216),
    'Tokens of one prompt and its answer together; without: what the file says, at most 8192',
  ),
  max_sequences: row(llama, wholeFrom(1, 256), 'Requests that are computed at the same time; 16'),
  kv_cells: row(
    llama,
    wholeFrom(16, 268_435_456),
    'Tokens that the [memory of all sequences](../guide/serve-a-gguf.md#memory) holds; without: enough for all of them, at most 16384',
  ),
  step_tokens: row(llama, wholeFrom(16, 65_536), 'Tokens of one step, answers and prompts together; 2048'),
  prompt_tokens_per_step: row(
    llama,
    wholeNumberUpTo(65_536),
    'Prompt tokens of one step; 0 or without: as many as keep the answers that run on time',
  ),
  n_threads: row(
    llama,
    wholeFrom(1, 1024),
    'Threads of one instance at most; without: one for each core. Fewer compute while other programs use the cores',
  ),
  weights: row(
    llama,
    oneOf('file', 'q8_0', 'bf16'),
    'The form of the [weights](../guide/serve-a-gguf.md#weights) in memory: that of the file (`file`, as without), 8 bits each (`q8_0`), or 16 (`bf16`)',
  ),
  n_gpu_layers: row(
    llama,
    wholeNumberUpTo(10_000),
    'Layers on the GPU; without: all of an instance with a GPU, none of others',
  ),
  gpu_split: row(
    llama,
    oneOf('none', 'layer', 'row'),
    'Where the layers of an instance with a GPU are: all on that GPU (`none`, as without), or on all GPUs together, one layer here and the next there (`layer`) or a part of each layer (`row`)',
  ),
  language_task: row(llama, oneOf('generate', 'embed', 'rerank'), 'What the model is for; without: what the file says'),
  lora_adapters: row(
    llama,
    anyText,
    '[Adapters](../guide/serve-a-gguf.md#adapters) that requests may name: `name=file`, with commas between, below the folder of the model',
  ),
  response_parameters: row(identity, onlyTrue, 'For tests of clients: whether an answer has parameters'),
  ...uploadRows,
}

type ParameterKey = keyof typeof modelParameters
type ValueOf<Key extends ParameterKey> = (typeof modelParameters)[Key] extends ParameterRow<infer Value> ? Value : never
type AnyRow = ParameterRow<unknown>

const byKey: ReadonlyMap<string, AnyRow> = new Map(Object.entries(modelParameters as Record<string, AnyRow>))

/** The value, or null when the model does not have the parameter. Throws INVALID_ARG for a value that cannot be read. */
export function readParameter<Key extends ParameterKey>(config: ModelConfig, key: Key): ValueOf<Key> | null {
  const text = config.parameters.get(key)?.stringValue
  if (text === undefined) return null
  const row = modelParameters[key] as unknown as ParameterRow<ValueOf<Key>>
  const value = row.rule.read(text)
  if (value === null) throw new ServerError('INVALID_ARG', refusal(config, key, row, text))
  return value
}

/** `<key>.<input>` where the model has it, else the value that all inputs share; null: neither. */
export function readInputParameter(
  { parameters }: ModelConfig,
  stem: 'pad_value' | 'pad_buckets',
  input: string,
): { readonly key: string; readonly text: string } | null {
  const key = parameters.has(`${stem}.${input}`) ? `${stem}.${input}` : stem
  const text = parameters.get(key)?.stringValue
  return text === undefined ? null : { key, text }
}

function refusal({ name }: ModelConfig, key: string, row: Pick<AnyRow, 'isModelFirst' | 'rule'>, got: string): string {
  const start =
    row.isModelFirst === true ? `model '${name}': parameter '${key}'` : `parameter '${key}' of model '${name}'`
  return `${start} must be ${row.rule.expected}, got '${got}'`
}

/** What a key means to a model of this backend; null: nothing, the key is the model's own. */
export function parameterRow(backend: string, key: string): AnyRow | null {
  const stem = byKey.get(key.slice(0, key.indexOf('.')))
  const row = byKey.get(key) ?? (stem?.isPerInput === true ? stem : undefined)
  return row !== undefined && (row.backends?.includes(backend) ?? true) ? row : null
}

/** Whether the value of the key is a path, whichever backend reads it. */
export const isPathParameter = (key: string): boolean => byKey.get(key)?.isPath === true

export const isOperatorsParameter = (key: string): boolean => byKey.get(key)?.isOperators === true

/** What is wrong with the parameters that Galatea reads, or with one of them. */
export function* parameterProblems(config: ModelConfig, only?: ParameterKey): Generator<ConfigProblem> {
  for (const [key, { stringValue }] of config.parameters) {
    const row = only === undefined || only === key ? parameterRow(config.backend, key) : null
    if (row === null) continue
    const path = `parameters["${key}"]`
    const value = row.rule.read(stringValue)
    if (value === null) yield problem(path, refusal(config, key, row, stringValue))
    const obstacles = value === null ? [] : (row.obstacles?.(config, value) ?? [])
    for (const what of obstacles) yield problem(path, `parameter '${key}' of model '${config.name}' ${what}`)
  }
}

/** The parameter that was most likely meant by a key that means nothing to a model of this backend; null: none. */
export function nearestParameter(backend: string, key: string): string | null {
  const known = [...byKey.keys()].filter((each) => parameterRow(backend, each) !== null)
  return known.find((each) => each.toLowerCase() === key.toLowerCase()) ?? nearestWord(key, known)
}

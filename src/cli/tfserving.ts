// `galatea tfserving`: a command line of tensorflow_model_server → one of `galatea serve`.

import { readFileSync } from 'node:fs'
import { messageOf } from '../base/server-error.ts'
import { packageVersion } from './package-facts.ts'
import type { CommandIo } from './command-io.ts'
import { flagTo, serveTranslated, type Environment, type Translated } from './serve-translated.ts'

/** What a flag of TensorFlow Serving becomes; null: it has no effect here, and `why` says what to do. */
type Translation = { readonly to: (value: string) => readonly string[] | null; readonly why?: string }

const becomes = (name: string): Translation => ({ to: flagTo(name) })
const without = (why: string): Translation => ({ to: () => null, why })
const isTrue = (value: string): boolean => value === '' || value === 'true' || value === '1'
const whenTrue = (...flags: string[]): Translation => ({ to: (value) => (isTrue(value) ? flags : []) })

const refused = (why: string): Translation => ({
  to: (value) => {
    if (value === 'false' || value === '0') return []
    throw new Error(why)
  },
})
const parameters = (...keys: string[]): Translation => ({
  to: (value) => (value === '0' ? [] : keys.map((key) => `--tfserving-model-parameter=${key}=${value}`)),
})

const perInstance =
  'each instance of a model is a process of its own, which TensorFlow configures as it does without a server'
const noLite = 'models of TensorFlow Lite are not served: convert the model to ONNX, or serve its SavedModel'
const ofRuntime = 'it tunes the runtime inside tensorflow_model_server, which is not here'

const translations: Readonly<Record<string, Translation>> = {
  port: becomes('grpc-port'),
  rest_api_port: { to: (value) => [`--tfserving-port=${value === '0' ? 'none' : value}`] },
  rest_api_timeout_in_ms: becomes('tfserving-timeout-ms'),
  rest_api_enable_cors_support: whenTrue('--http-cors-origin=*'),
  model_config_file: becomes('tfserving-model-config-file'),
  model_config_file_poll_wait_seconds: becomes('tfserving-model-config-poll-secs'),
  enable_batching: whenTrue('--tfserving-batching=true'),
  batching_parameters_file: becomes('tfserving-batching-file'),
  max_num_load_retries: becomes('model-load-retry-count'),
  load_retry_interval_micros: { to: (value) => [`--model-load-retry-delay-ms=${Math.ceil(Number(value) / 1000)}`] },
  num_load_threads: { to: (value) => [`--model-load-thread-count=${value === '0' ? '4' : value}`] },
  enable_serialization_as_tensor_content: whenTrue('--tfserving-tensor-content=true'),
  monitoring_config_file: { to: monitoring },
  ssl_config_file: becomes('tfserving-ssl-config-file'),
  grpc_socket_path: becomes('grpc-socket-path'),
  grpc_channel_arguments: { to: channelArguments },
  tensorflow_session_parallelism: parameters('TF_NUM_INTRA_THREADS', 'TF_NUM_INTER_THREADS'),
  tensorflow_intra_op_parallelism: parameters('TF_NUM_INTRA_THREADS'),
  tensorflow_inter_op_parallelism: parameters('TF_NUM_INTER_THREADS'),
  saved_model_tags: parameters('TF_GRAPH_TAG'),
  // Read together with others below.
  model_name: { to: () => [] },
  model_base_path: { to: () => [] },
  file_system_poll_wait_seconds: { to: () => [] },
  // True of this server in any case.
  enable_grpc_healthcheck_service: { to: () => [] },
  allow_version_labels_for_unavailable_models: { to: () => [] },
  force_allow_any_version_labels_for_unavailable_models: { to: () => [] },
  skip_initialize_tpu: { to: () => [] },
  // A server with one of these would not do what its clients count on.
  use_alts_credentials: refused('--use_alts_credentials: ALTS is not there; TLS is, by --ssl_config_file'),
  prefer_tflite_model: refused(`--prefer_tflite_model: ${noLite}`),
  use_tflite_model: refused(`--use_tflite_model: ${noLite}`),
  // The rest changes how fast or how large the original is, and not what it answers.
  rest_api_num_threads: without('one thread reads requests; --tfserving-thread-count sizes those for large bodies'),
  grpc_max_threads: without('one thread reads requests, so there are no threads to count'),
  num_unload_threads: without('models are unloaded as soon as their last request ends'),
  enable_model_warmup: {
    to: (value) => (isTrue(value) ? null : []),
    why: 'assets.extra/tf_serving_warmup_requests is not read; model_warmup in the config.pbtxt of the model does the same',
  },
  num_request_iterations_for_warmup: without('count in model_warmup of the config.pbtxt of the model does the same'),
  enable_per_model_batching_parameters: without(
    'batching_params.pbtxt is not read; dynamic_batching in the config.pbtxt of the model does the same',
  ),
  flush_filesystem_caches: without('the caches of files belong to the operating system'),
  per_process_gpu_memory_fraction: without('an instance takes the GPU memory that it needs'),
  platform_config_file: without(perInstance),
  tensorflow_session_config_file: without(perInstance),
  thread_pool_factory_config_file: without(perInstance),
  xla_cpu_compilation_enabled: without(perInstance),
  xla_gpu_compilation_enabled: without(perInstance),
  mixed_precision: without(perInstance),
  remove_unused_fields_from_bundle_metagraph: without(ofRuntime),
  enable_profiler: without('`galatea serve --trace-config` and the console show where time goes'),
  num_tflite_pools: without(noLite),
  num_tflite_interpreters_per_pool: without(noLite),
  enable_signature_method_name_check: without('the inputs and outputs of a request are checked in any case'),
  enforce_session_run_timeout: without('--rest_api_timeout_in_ms and the deadline of a gRPC call end a request'),
  servable_versions_always_present: without('versions are listed as their folders are found'),
  tensorflow_cache_size: without(ofRuntime),
}

/** gRPC's own names → flags of the gRPC port. */
const channelFlags: Readonly<Record<string, string>> = {
  'grpc.keepalive_time_ms': 'grpc-keepalive-time',
  'grpc.keepalive_timeout_ms': 'grpc-keepalive-timeout',
  'grpc.keepalive_permit_without_calls': 'grpc-keepalive-permit-without-calls',
  'grpc.http2.max_pings_without_data': 'grpc-http2-max-pings-without-data',
  'grpc.http2.min_ping_interval_without_data_ms': 'grpc-http2-min-recv-ping-interval-without-data',
  'grpc.http2.max_ping_strikes': 'grpc-http2-max-ping-strikes',
  'grpc.max_connection_age_ms': 'grpc-max-connection-age',
  'grpc.max_connection_age_grace_ms': 'grpc-max-connection-age-grace',
  'grpc.max_receive_message_length': 'grpc-max-message-size',
}

/** `grpc.keepalive_time_ms=10000,grpc.max_connection_age_ms=2000` */
function channelArguments(value: string): string[] {
  return value.split(',').flatMap((pair) => {
    const [name = '', setting = ''] = pair.split('=')
    const own = channelFlags[name.trim()]
    if (own !== undefined) return [`--${own}=${name.endsWith('_calls') ? isTrue(setting) : setting}`]
    throw new Error(
      `--grpc_channel_arguments: '${name}' is not known here, only ${Object.keys(channelFlags).join(', ')}`,
    )
  })
}

/** What a server has that nobody said more about: TensorFlow Serving's ports and sizes, on all addresses, and nothing beside them. */
const beginning = [
  '--allow-tfserving=true',
  '--allow-tfserving-reload=true',
  '--allow-http=false',
  '--allow-metrics=false',
  '--grpc-address=0.0.0.0',
  '--tfserving-address=0.0.0.0',
  '--grpc-port=8500',
  '--grpc-max-message-size=2147483647',
  '--tfserving-port=none',
]

/** Throws an Error for a flag that neither server has. */
export function serveArguments(given: readonly string[], environment: Environment): Translated {
  const values = new Map<string, string>()
  const args = [...beginning]
  const warnings: string[] = []
  for (let i = 0; i < given.length; i++) {
    const { name, value, isOwn, tookNext } = readFlag(given, i)
    if (tookNext) i++
    if (isOwn) {
      args.push(`--${name}${value === null ? '' : `=${value}`}`)
      continue
    }
    const translation = translations[name]
    if (translation === undefined) throw new Error(`tensorflow_model_server's flag --${name} is not known here`)
    values.set(name, value ?? '')
    const flags = translation.to(value ?? '')
    if (flags === null) warnings.push(`--${name} has no effect: ${translation.why}`)
    else args.push(...flags)
  }
  requireConsistent(values)
  args.push(...modelFlags(values, environment), ...pollFlags(values))
  if (values.has('monitoring_config_file')) args.push('--allow-metrics=true', '--metrics-port=0')
  return { args, warnings }
}

/** Throws what TensorFlow Serving refuses to start with. */
function requireConsistent(values: ReadonlyMap<string, string>): void {
  if (values.get('port') === '0' && !values.has('grpc_socket_path')) {
    throw new Error('at least one of --port and --grpc_socket_path must be set')
  }
  if (values.has('batching_parameters_file') && !isTrue(values.get('enable_batching') ?? 'false')) {
    throw new Error('--batching_parameters_file is set without --enable_batching')
  }
}

/** Flags of TensorFlow Serving have underscores or one word, and those of Galatea have dashes. `-flag` is `--flag`. */
function readFlag(
  given: readonly string[],
  at: number,
): { name: string; value: string | null; isOwn: boolean; tookNext: boolean } {
  const text = given[at] ?? ''
  const match = /^--?([^=]+)(?:=(.*))?$/s.exec(text)
  if (match === null) throw new Error(`unexpected argument '${text}'`)
  const [, name = '', inline] = match
  const isOwn = name.includes('-') || (name !== 'port' && !(name in translations) && !name.includes('_'))
  const next = given[at + 1]
  const takesNext = inline === undefined && next !== undefined && !next.startsWith('-')
  return { name, value: inline ?? (takesNext ? next : null), isOwn, tookNext: takesNext }
}

/** One model by flags, or by the variables of TensorFlow Serving's image. A configuration file takes the place of both. */
function modelFlags(values: ReadonlyMap<string, string>, environment: Environment): string[] {
  if (values.has('model_config_file')) return []
  const name = values.get('model_name')
  const folder = values.get('model_base_path')
  if (folder !== undefined) return [`--tfserving-model=${name ?? 'default'}=${folder}`]
  const [imageName, imageFolder] = [environment['MODEL_NAME'], environment['MODEL_BASE_PATH']]
  if (imageName === undefined && imageFolder === undefined) return []
  const model = name ?? imageName ?? 'model'
  return [`--tfserving-model=${model}=${imageFolder ?? '/models'}/${model}`]
}

function pollFlags(values: ReadonlyMap<string, string>): string[] {
  const seconds = Number(values.get('file_system_poll_wait_seconds') ?? '1')
  if (!(seconds > 0)) return ['--model-control-mode=none']
  return ['--model-control-mode=poll', `--repository-poll-secs=${Math.max(1, Math.round(seconds))}`]
}

/** `prometheus_config { enable: true, path: "/monitoring/prometheus/metrics" }` */
function monitoring(file: string): string[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (reason) {
    throw new Error(`cannot read --monitoring_config_file '${file}': ${messageOf(reason)}`, { cause: reason })
  }
  if (!/\benable\s*:\s*true\b/.test(text)) return []
  const path = /\bpath\s*:\s*"([^"]+)"/.exec(text)?.[1] ?? '/monitoring/prometheus/metrics'
  return [`--tfserving-monitoring-path=${path}`]
}

const help = `Usage: galatea tfserving [flags of tensorflow_model_server] [flags of galatea serve]

  galatea tfserving --model_name=NAME --model_base_path=PATH --rest_api_port=8501
  galatea tfserving --model_config_file=models.config --enable_batching --batching_parameters_file=batching.config

docs/guide/moving-from-tensorflow-serving.md says what each flag does here.
`

export async function runTfserving(args: string[], io: CommandIo): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    io.stdout(help)
    return 0
  }
  if (args.includes('--version')) {
    io.stdout(`galatea ${packageVersion()}, in the place of tensorflow_model_server\n`)
    return 0
  }
  return serveTranslated('tfserving', io, () => serveArguments(args, process.env), help)
}

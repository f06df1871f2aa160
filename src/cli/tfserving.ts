// `galatea tfserving`: a command line of tensorflow_model_server → one of `galatea serve`.

import { readFileSync } from 'node:fs'
import { messageOf } from '../base/server-error.ts'
import type { CommandIo } from './command-io.ts'
import { runServe } from './serve.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** What a flag of TensorFlow Serving becomes; null: it has no effect here, and `why` says what to do. */
type Translation = { readonly to: (value: string) => readonly string[] | null; readonly why?: string }

const flagTo = (name: string): Translation => ({ to: (value) => [`--${name}=${value}`] })
const without = (why: string): Translation => ({ to: () => null, why })
const isTrue = (value: string): boolean => value === '' || value === 'true' || value === '1'
const whenTrue = (...flags: string[]): Translation => ({ to: (value) => (isTrue(value) ? flags : []) })

const tls = 'use --grpc-use-ssl, --grpc-server-cert and --grpc-server-key'
const threads = 'threads belong to the backend: see docs/guide/tensorflow.md'

const translations: Readonly<Record<string, Translation>> = {
  port: flagTo('grpc-port'),
  rest_api_port: { to: (value) => [`--tfserving-port=${value === '0' ? 'none' : value}`] },
  model_config_file: flagTo('tfserving-model-config-file'),
  model_config_file_poll_wait_seconds: flagTo('tfserving-model-config-poll-secs'),
  enable_batching: whenTrue('--tfserving-batching=true'),
  batching_parameters_file: flagTo('tfserving-batching-file'),
  max_num_load_retries: flagTo('model-load-retry-count'),
  enable_serialization_as_tensor_content: whenTrue('--tfserving-tensor-content=true'),
  rest_api_enable_cors_support: whenTrue('--http-cors-origin=*'),
  monitoring_config_file: { to: monitoring },
  num_load_threads: { to: (value) => [`--model-load-thread-count=${value === '0' ? '4' : value}`] },
  // Read together with others below.
  model_name: { to: () => [] },
  model_base_path: { to: () => [] },
  file_system_poll_wait_seconds: { to: () => [] },
  ssl_config_file: without(tls),
  grpc_socket_path: without('the gRPC port is a TCP port'),
  rest_api_timeout_in_ms: without('use --model-max-execution-secs, or a time-out in the configuration of the model'),
  rest_api_num_threads: without('there are no threads to size'),
  load_retry_interval_micros: without('a load is tried again at once'),
  enable_model_warmup: without('a model with a configuration of its own has model_warmup there'),
  tensorflow_session_parallelism: without(threads),
  tensorflow_intra_op_parallelism: without(threads),
  tensorflow_inter_op_parallelism: without(threads),
  enable_grpc_healthcheck_service: whenTrue(),
  allow_version_labels_for_unavailable_models: whenTrue(),
  flush_filesystem_caches: without('caches belong to the system'),
}

/** What a server has that nobody said more about: TensorFlow Serving's ports, on all addresses, and nothing beside them. */
const beginning = [
  '--allow-tfserving=true',
  '--allow-tfserving-reload=true',
  '--allow-http=false',
  '--allow-metrics=false',
  '--grpc-address=0.0.0.0',
  '--tfserving-address=0.0.0.0',
  '--grpc-port=8500',
  '--tfserving-port=none',
]

type ServeArguments = { readonly args: string[]; readonly warnings: string[] }

/** Throws an Error for a flag that neither server has. */
export function serveArguments(given: readonly string[], environment: Environment): ServeArguments {
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
  args.push(...modelFlags(values, environment), ...pollFlags(values))
  if (values.has('monitoring_config_file')) args.push('--allow-metrics=true', '--metrics-port=0')
  return { args, warnings }
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

/** One model by flags, or by the variables of TensorFlow Serving's image. */
function modelFlags(values: ReadonlyMap<string, string>, environment: Environment): string[] {
  const name = values.get('model_name')
  const folder = values.get('model_base_path')
  if (folder !== undefined) return [`--tfserving-model=${name ?? 'default'}=${folder}`]
  if (values.has('model_config_file')) return []
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
  let translated: ServeArguments
  try {
    translated = serveArguments(args, process.env)
  } catch (reason) {
    io.stderr(`galatea tfserving: ${messageOf(reason)}\n${help}`)
    return 1
  }
  for (const warning of translated.warnings) io.stderr(`galatea tfserving: ${warning}\n`)
  return runServe(translated.args, io)
}

// `galatea torchserve …`: an existing command line of TorchServe, with its config.properties, as flags of this server.

import { readFile } from 'node:fs/promises'
import { messageOf } from '../base/server-error.ts'
import type { CommandIo } from './command-io.ts'

type Properties = Readonly<Record<string, string>>

const mostPropertyBytes = 1024 * 1024

/** The lines `key=value` of a Java properties file. */
export function parseProperties(text: string): Properties {
  const entries: [string, string][] = []
  for (const line of text.replace(/\\\r?\n[ \t]*/g, '').split(/\r?\n/)) {
    const match = /^[ \t]*([^\s#!=:][^\s=:]*)[ \t]*[=:]?[ \t]*(.*)$/.exec(line)
    if (match !== null) entries.push([match[1] ?? '', (match[2] ?? '').trim()])
  }
  return Object.fromEntries(entries)
}

type TorchserveCommand = { readonly flags: readonly string[]; readonly notes: readonly string[] }

/** Words of TorchServe's command line that take a value; the others are switches. */
const valued = new Set([
  '--model-store',
  '--models',
  '--ts-config',
  '--log-config',
  '--workflow-store',
  '--cpp-log-config',
])

type Given = { readonly values: ReadonlyMap<string, readonly string[]>; readonly others: readonly string[] }

function readWords(args: readonly string[]): Given {
  const values = new Map<string, string[]>()
  const others: string[] = []
  let current: string[] | null = null
  for (const word of args) {
    const [name = '', ...rest] = word.split('=')
    if (valued.has(name) && word.startsWith('--')) {
      current = values.get(name) ?? []
      values.set(name, current)
      if (rest.length > 0) current.push(rest.join('='))
    } else if (word.startsWith('-')) {
      others.push(word)
      current = null
    } else if (current === null) others.push(word)
    else current.push(word)
  }
  return { values, others }
}

/** What a command line and its properties mean. Flags of Galatea among the words stay as they are. */
export function torchserveFlagsOf(args: readonly string[], properties: Properties): TorchserveCommand {
  const { values, others } = readWords(args)
  const flags = [
    '--allow-torchserve',
    '--exit-on-error=false',
    '--allow-http=false',
    '--allow-grpc=false',
    '--allow-metrics=false',
  ]
  const notes: string[] = []
  const store = values.get('--model-store')?.[0] ?? properties['model_store']
  if (store !== undefined) flags.push(`--torchserve-model-store=${store}`)
  const models = values.get('--models') ?? (properties['load_models'] ?? '').split(',').map((each) => each.trim())
  for (const model of models) if (model !== '' && model !== 'none') flags.push(`--torchserve-model=${model}`)
  flags.push(...addressFlags(properties))
  for (const [key, value] of Object.entries(properties)) {
    const flag = flagOfProperty[key]
    if (flag !== undefined) flags.push(...flag(value))
    else if (!silent.has(key)) notes.push(`${key} of config.properties has no effect`)
  }
  for (const word of others) {
    const known = flagOfWord[word]
    if (known === undefined) flags.push(word)
    else flags.push(...known)
  }
  return { flags, notes }
}

const one =
  (flag: string) =>
  (value: string): string[] => [`--${flag}=${value}`]

const flagOfProperty: Readonly<Record<string, (value: string) => string[]>> = {
  default_workers_per_model: one('torchserve-default-workers'),
  job_queue_size: one('torchserve-job-queue-size'),
  default_response_timeout: one('torchserve-response-timeout-secs'),
  decode_input_request: one('torchserve-decode-input'),
  service_envelope: one('torchserve-service-envelope'),
  install_py_dep_per_model: one('torchserve-install-requirements'),
  enable_model_api: one('torchserve-enable-model-api'),
  max_request_size: (value) => [`--http-max-input-size=${value}`, `--grpc-max-message-size=${value}`],
  grpc_inference_port: one('torchserve-grpc-inference-port'),
  grpc_management_port: one('torchserve-grpc-management-port'),
  allowed_urls: (value) => value.split(',').map((each) => `--torchserve-allowed-url=${each.trim()}`),
  model_store: () => [],
  load_models: () => [],
  inference_address: () => [],
  management_address: () => [],
  metrics_address: () => [],
}

/** Keys that change nothing here and need no word. */
const silent = new Set([
  'number_of_netty_threads',
  'grpc_inference_address',
  'grpc_management_address',
  'grpc_inference_max_connection_age_ms',
  'grpc_management_max_connection_age_ms',
  'netty_client_threads',
  'metrics_mode',
  'enable_envvars_config',
  'prefer_direct_buffer',
  'disable_token_authorization',
  'default_startup_timeout',
  'unregister_model_timeout',
  'vmargs',
  'async_logging',
  'model_snapshot',
])

const flagOfWord: Readonly<Record<string, readonly string[]>> = {
  '--start': [],
  '--foreground': [],
  '--ncs': [],
  '--no-config-snapshots': [],
  '--disable-token-auth': [],
  '--enable-model-api': ['--torchserve-enable-model-api'],
  '--model-api-enabled': ['--torchserve-enable-model-api'],
}

/** `inference_address=http://0.0.0.0:8080` and the like. All ports listen on the address of the first one. */
function addressFlags(properties: Properties): string[] {
  const ports = { inference_address: 'inference', management_address: 'management', metrics_address: 'metrics' }
  return Object.entries(ports).flatMap(([key, port]) => {
    const match = /^(?:https?:\/\/)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?\/?$/.exec(properties[key] ?? '')
    if (match === null) return []
    const [, host = '', number] = match
    const address = key === 'inference_address' ? [`--torchserve-address=${host.replace(/[[\]]/g, '')}`] : []
    return [...address, ...(number === undefined ? [] : [`--torchserve-${port}-port=${number}`])]
  })
}

/** Resolves with the exit code. */
export async function runTorchserve(args: string[], io: CommandIo): Promise<number> {
  if (args.includes('--stop')) {
    io.stderr('galatea torchserve: --stop is not needed: the server runs in the foreground and ends with SIGTERM\n')
    return 2
  }
  const { values } = readWords(args)
  const file = values.get('--ts-config')?.[0] ?? process.env['TS_CONFIG_FILE'] ?? ''
  let properties: Properties = {}
  if (file !== '') {
    try {
      const text = await readFile(file, 'utf8')
      if (text.length > mostPropertyBytes) throw new Error(`it has more than ${mostPropertyBytes} bytes`)
      properties = parseProperties(text)
    } catch (reason) {
      io.stderr(`galatea torchserve: cannot read ${file}: ${messageOf(reason)}\n`)
      return 1
    }
  }
  const { flags, notes } = torchserveFlagsOf(args, properties)
  for (const note of notes) io.stderr(`galatea torchserve: ${note}\n`)
  const { runServe } = await import('./serve.ts')
  return runServe([...flags], io)
}

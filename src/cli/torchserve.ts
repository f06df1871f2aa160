// `galatea torchserve …`: an existing command line of TorchServe, with its config.properties, as flags of this server.

import { readFile } from 'node:fs/promises'
import { messageOf } from '../base/server-error.ts'
import type { CommandIo } from './command-io.ts'
import { flagTo, serveTranslated, type Environment, type Translated } from './serve-translated.ts'

type Properties = Readonly<Record<string, string>>

const mostPropertyBytes = 1024 * 1024

/** The lines `key=value` of a Java properties file. */
export function parseProperties(text: string): Properties {
  const lines = text.replace(/\\\r?\n[ \t]*/g, '').matchAll(/^[ \t]*([^\s#!=:][^\s=:]*)[ \t]*[=:]?[ \t]*(.*)$/gm)
  return Object.fromEntries([...lines].map(([, key = '', value = '']) => [key, value.trim()]))
}

/** What stands in the file and in the environment. What the environment says counts more than the command line. */
type Settings = { readonly file: Properties; readonly environment: Properties }

/** As in TorchServe: `$$NAME$$` is a variable, and with `enable_envvars_config=true` so is each key, as TS_KEY. Throws an Error. */
export function withEnvironment(properties: Properties, variables: Environment): Settings {
  const file: Record<string, string> = {}
  const environment: Record<string, string> = {}
  for (const [key, text] of Object.entries(properties)) {
    file[key] = text.replaceAll(/\$\$([^$]{2,})\$\$/g, (_, name: string) => {
      const value = variables[name]
      if (value === undefined) throw new Error(`Invalid Environment Variable ${name}`)
      return value
    })
  }
  if (!/^true$/i.test(file['enable_envvars_config'] ?? '')) return { file, environment }
  for (const key of [...Object.keys(flagsOfProperty), ...silent]) {
    const value = variables[`TS_${key.toUpperCase()}`]
    // Who sets variables does not say by that alone where code comes from.
    const isRead = key !== 'allowed_urls' || file['use_env_allowed_urls'] === 'true'
    if (value !== undefined && isRead) environment[key] = value
  }
  return { file, environment }
}

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
  let current = others
  for (const word of args) {
    const [name = '', ...rest] = word.split('=')
    if (valued.has(name)) {
      current = values.get(name) ?? []
      values.set(name, current)
      if (rest.length > 0) current.push(rest.join('='))
    } else {
      if (word.startsWith('-')) current = others
      current.push(word)
    }
  }
  return { values, others }
}

/** What a command line and its settings mean. Flags of Galatea among the words stay as they are. */
export function torchserveFlagsOf(words: readonly string[], { file, environment }: Settings): Translated {
  const { values, others } = readWords(words)
  const flagsOf = (properties: Properties): string[] =>
    Object.entries(properties).flatMap(([key, value]) => flagsOfProperty[key]?.(value) ?? [])
  const inFile = Object.fromEntries(Object.entries(file).filter(([key]) => environment[key] === undefined))
  const store = environment['model_store'] ?? values.get('--model-store')?.[0] ?? file['model_store']
  const listed = environment['load_models'] ?? values.get('--models')?.join() ?? file['load_models'] ?? ''
  const models = listed.split(',').map((each) => each.trim())
  const args = [
    '--allow-torchserve',
    '--exit-on-error=false',
    '--allow-http=false',
    '--allow-grpc=false',
    '--allow-metrics=false',
    ...(store === undefined ? [] : [`--torchserve-model-store=${store}`]),
    ...models.filter((model) => model !== '' && model !== 'none').map((model) => `--torchserve-model=${model}`),
    ...flagsOf(inFile),
    ...others.flatMap((word) => flagsOfWord[word] ?? [word]),
    ...flagsOf(environment),
  ]
  const unknown = Object.keys(file).filter((key) => flagsOfProperty[key] === undefined && !silent.has(key))
  return { args, warnings: unknown.map((key) => `${key} of config.properties has no effect`) }
}

type Translation = (value: string) => string[]

/** `inference_address=http://0.0.0.0:8080` and the like. All ports listen on the address of the first one. */
const addressTo =
  (port: 'inference' | 'management' | 'metrics'): Translation =>
  (value) => {
    const match = /^(?:https?:\/\/)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?\/?$/.exec(value)
    if (match === null) return []
    const [, host = '', number] = match
    const address = port === 'inference' ? [`--torchserve-address=${host.replace(/[[\]]/g, '')}`] : []
    return [...address, ...(number === undefined ? [] : [`--torchserve-${port}-port=${number}`])]
  }

const flagsOfProperty: Readonly<Record<string, Translation>> = {
  inference_address: addressTo('inference'),
  management_address: addressTo('management'),
  metrics_address: addressTo('metrics'),
  default_workers_per_model: flagTo('torchserve-default-workers'),
  job_queue_size: flagTo('torchserve-job-queue-size'),
  default_response_timeout: flagTo('torchserve-response-timeout-secs'),
  decode_input_request: flagTo('torchserve-decode-input'),
  service_envelope: flagTo('torchserve-service-envelope'),
  install_py_dep_per_model: flagTo('torchserve-install-requirements'),
  enable_model_api: flagTo('torchserve-enable-model-api'),
  max_request_size: flagTo('http-max-input-size', 'grpc-max-message-size'),
  grpc_inference_port: flagTo('torchserve-grpc-inference-port'),
  grpc_management_port: flagTo('torchserve-grpc-management-port'),
  allowed_urls: (value) => value.split(',').map((each) => `--torchserve-allowed-url=${each.trim()}`),
}

/** Keys that are read together with the command line, or change nothing here and need no word. */
const silent: ReadonlySet<string> = new Set([
  'model_store',
  'load_models',
  'number_of_netty_threads',
  'grpc_inference_address',
  'grpc_management_address',
  'grpc_inference_max_connection_age_ms',
  'grpc_management_max_connection_age_ms',
  'netty_client_threads',
  'metrics_mode',
  'enable_envvars_config',
  'use_env_allowed_urls',
  'prefer_direct_buffer',
  'disable_token_authorization',
  'default_startup_timeout',
  'unregister_model_timeout',
  'vmargs',
  'async_logging',
  'model_snapshot',
])

const flagsOfWord: Readonly<Record<string, readonly string[]>> = {
  '--start': [],
  '--foreground': [],
  '--ncs': [],
  '--no-config-snapshots': [],
  '--disable-token-auth': [],
  '--enable-model-api': ['--torchserve-enable-model-api'],
  '--model-api-enabled': ['--torchserve-enable-model-api'],
}

/** Resolves with the exit code. */
export async function runTorchserve(args: string[], io: CommandIo): Promise<number> {
  if (args.includes('--stop')) {
    io.stderr('galatea torchserve: --stop is not needed: the server runs in the foreground and ends with SIGTERM\n')
    return 2
  }
  return serveTranslated('torchserve', io, async () => torchserveFlagsOf(args, await settingsOf(args)))
}

async function settingsOf(args: readonly string[]): Promise<Settings> {
  const file = readWords(args).values.get('--ts-config')?.[0] ?? process.env['TS_CONFIG_FILE'] ?? ''
  try {
    const text = file === '' ? '' : await readFile(file, 'utf8')
    if (text.length > mostPropertyBytes) throw new Error(`it has more than ${mostPropertyBytes} bytes`)
    return withEnvironment(parseProperties(text), process.env)
  } catch (reason) {
    throw new Error(`cannot read ${file}: ${messageOf(reason)}`, { cause: reason })
  }
}

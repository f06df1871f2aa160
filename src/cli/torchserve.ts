// `galatea torchserve …`: an existing command line of TorchServe, with its config.properties, as flags of this server.

import { existsSync } from 'node:fs'
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
  '--plugins-path',
  '--ppath',
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
  const inAll = { ...file, ...environment }
  const inFile = Object.fromEntries(Object.entries(file).filter(([key]) => environment[key] === undefined))
  const store = environment['model_store'] ?? values.get('--model-store')?.[0] ?? file['model_store']
  const snapshot = snapshotOf(environment['model_snapshot'] ?? file['model_snapshot'] ?? '')
  const listed = environment['load_models'] ?? values.get('--models')?.join() ?? file['load_models'] ?? ''
  const models = snapshot?.models ?? listed.split(',').map((each) => each.trim())
  const settings = snapshot?.settings ?? environment['models'] ?? file['models'] ?? ''
  const args = [
    '--allow-torchserve',
    '--exit-on-error=false',
    '--allow-http=false',
    '--allow-grpc=false',
    '--allow-metrics=false',
    // Each port has an address of its own there, and stays on this machine unless its key says otherwise.
    ...['management', 'metrics', 'grpc-inference', 'grpc-management'].map(
      (port) => `--torchserve-${port}-address=${home}`,
    ),
    ...(store === undefined ? [] : [`--torchserve-model-store=${store}`]),
    ...models.filter((model) => model !== '' && model !== 'none').map((model) => `--torchserve-model=${model}`),
    ...(settings === '' ? [] : [`--torchserve-model-settings=${settings}`]),
    ...flagsOf(inFile),
    ...tlsFlags(inAll),
    ...others.flatMap((word) => flagsOfWord[word] ?? [word]),
    ...flagsOf(environment),
  ]
  const unknown = Object.keys(file).filter((key) => flagsOfProperty[key] === undefined && !silent.has(key))
  const warnings = unknown.map((key) => `${key} of config.properties has no effect`)
  const isOpen =
    others.some((word) => openWords.has(word)) || /^true$/i.test(inAll['disable_token_authorization'] ?? '')
  return { args, warnings: isOpen ? warnings : [...warnings, openWarning] }
}

const home = '127.0.0.1'
/** Words that switch TorchServe's tokens off. */
const openWords: ReadonlySet<string> = new Set(['--disable-token-auth', '--dt'])
const openWarning =
  'there are no token files: whoever reaches the ports may use them. --disable-token-auth says that this is meant, --access-config asks for keys'

type Snapshot = { readonly models: readonly string[]; readonly settings: string }

/** What TorchServe was serving when it wrote `model_snapshot`: this comes before every list of models. Throws an Error. */
function snapshotOf(text: string): Snapshot | null {
  if (text === '') return null
  const { models = {} } = JSON.parse(text) as { models?: Record<string, Record<string, Record<string, unknown>>> }
  const listed = Object.entries(models).flatMap(([name, versions]) =>
    // The first version that is loaded is the default one.
    Object.values(versions)
      .sort((a, b) => Number(b['defaultVersion'] === true) - Number(a['defaultVersion'] === true))
      .map(({ marName }) => `${name}=${String(marName)}`),
  )
  return { models: listed, settings: JSON.stringify(models) }
}

/** One certificate is for all HTTP ports here: they speak TLS where one of their addresses is https. Throws an Error. */
function tlsFlags(properties: Properties): string[] {
  const isSecure = addressKeys.some((key) => /^https:/i.test(properties[key] ?? ''))
  const isSecureGrpc = /^true$/i.test(properties['enable_grpc_ssl'] ?? '')
  if (!isSecure && !isSecureGrpc) return []
  const { certificate_file: certificate, private_key_file: key } = properties
  if (certificate === undefined || key === undefined) {
    throw new Error('TLS needs certificate_file and private_key_file: a keystore is not read')
  }
  return [isSecure ? 'http' : '', isSecureGrpc ? 'grpc' : '']
    .filter((port) => port !== '')
    .flatMap((port) => [
      `--${port}-use-ssl=true`,
      `--${port}-server-cert=${certificate}`,
      `--${port}-server-key=${key}`,
    ])
}

const addressKeys = ['inference_address', 'management_address', 'metrics_address'] as const

type Translation = (value: string) => string[]

/** `inference_address=http://0.0.0.0:8080` and the like; with the numbers of ports that TorchServe takes where it says none. */
const addressTo =
  (addressFlag: string, portFlag: string, plainPort: number, securePort: number): Translation =>
  (value) => {
    const match = /^(?:(https?):\/\/)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?\/?$/i.exec(value)
    if (match === null) throw new Error(`Invalid binding address: ${value}`)
    const [, scheme = 'http', host = '', number] = match
    const port = number ?? (scheme.toLowerCase() === 'https' ? securePort : plainPort)
    return [`--${addressFlag}=${host.replace(/[[\]]/g, '')}`, `--${portFlag}=${port}`]
  }

const flagsOfProperty: Readonly<Record<string, Translation>> = {
  inference_address: addressTo('torchserve-address', 'torchserve-inference-port', 80, 443),
  management_address: addressTo('torchserve-management-address', 'torchserve-management-port', 8081, 8444),
  metrics_address: addressTo('torchserve-metrics-address', 'torchserve-metrics-port', 8082, 8445),
  grpc_inference_address: flagTo('torchserve-grpc-inference-address'),
  grpc_management_address: flagTo('torchserve-grpc-management-address'),
  default_workers_per_model: flagTo('torchserve-default-workers'),
  job_queue_size: flagTo('torchserve-job-queue-size'),
  default_response_timeout: flagTo('torchserve-response-timeout-secs'),
  default_service_handler: flagTo('torchserve-default-handler'),
  cors_allowed_origin: flagTo('http-cors-origin'),
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
  'grpc_inference_max_connection_age_ms',
  'grpc_management_max_connection_age_ms',
  'netty_client_threads',
  'metrics_mode',
  'enable_metrics_api',
  'enable_envvars_config',
  'use_env_allowed_urls',
  'prefer_direct_buffer',
  'disable_token_authorization',
  'default_startup_timeout',
  'unregister_model_timeout',
  'certificate_file',
  'private_key_file',
  'enable_grpc_ssl',
  'models',
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
  '--dt': [],
  '--enable-model-api': ['--torchserve-enable-model-api'],
  '--model-api-enabled': ['--torchserve-enable-model-api'],
}

const help = `Usage: galatea torchserve [words of torchserve] [flags of galatea serve]

  galatea torchserve --start --model-store model_store --models all --ts-config config.properties --disable-token-auth
  galatea torchserve --model-store model_store --models resnet=resnet.mar --python venv/bin/python

docs/guide/moving-from-torchserve.md says what each word and each key of config.properties does here.
`

/** Resolves with the exit code. */
export async function runTorchserve(args: string[], io: CommandIo): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    io.stdout(help)
    return 0
  }
  if (args.includes('--stop')) {
    io.stderr('galatea torchserve: --stop is not needed: the server runs in the foreground and ends with SIGTERM\n')
    return 2
  }
  return serveTranslated('torchserve', io, async () => torchserveFlagsOf(args, await settingsOf(args)), help)
}

async function settingsOf(args: readonly string[]): Promise<Settings> {
  // As in TorchServe: the variable counts more than the command line, and without both the file may lie in the working directory.
  const named = process.env['TS_CONFIG_FILE'] ?? readWords(args).values.get('--ts-config')?.[0]
  const file = named ?? 'config.properties'
  try {
    const text = named === undefined && !existsSync(file) ? '' : await readFile(file, 'utf8')
    if (text.length > mostPropertyBytes) throw new Error(`it has more than ${mostPropertyBytes} bytes`)
    return withEnvironment(parseProperties(text), process.env)
  } catch (reason) {
    throw new Error(`cannot read ${file}: ${messageOf(reason)}`, { cause: reason })
  }
}

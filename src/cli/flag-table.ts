// Every flag of `galatea serve`, once: parsing, --help, environment variables and docs/reference/flags.md all read this
// table. Names, forms and defaults are Triton's where Triton has the flag.

import { parseCorsOrigins } from './cors-origins.ts'
import { checkers } from './flag-forms.ts'

export type FlagForm =
  | { readonly kind: 'boolean' }
  /** A flag that takes no value. */
  | { readonly kind: 'switch' }
  /** A verbosity: a number, or true for 1 and false for 0. */
  | { readonly kind: 'verbosity' }
  | { readonly kind: 'integer'; readonly min: number; readonly max: number }
  | { readonly kind: 'seconds'; readonly min: number }
  | { readonly kind: 'choice'; readonly choices: readonly string[] }
  | { readonly kind: 'text'; readonly placeholder: string }
  /** A text with an inner form; `check` throws a FlagError that says what is wrong with it. */
  | { readonly kind: 'checked'; readonly placeholder: string; readonly check: (flag: string, value: string) => void }

/**
 * works: does what it says. accepted: Triton's flag that this version takes, checks for form and does not act on.
 * deprecated: still works; the help names what to use instead.
 */
export type FlagStatus = 'works' | 'accepted' | 'deprecated'

export type FlagSpec = {
  /** Without the dashes. */
  readonly name: string
  readonly group: string
  readonly form: FlagForm
  /** As it would be typed; '' when there is none. */
  readonly default: string
  /** The default with --triton-defaults, where it differs. */
  readonly tritonDefault: string
  readonly help: string
  readonly status: FlagStatus
  readonly isRepeatable: boolean
  /** The value under which an accepted flag asks for no more than what happens anyway; then nobody need be warned. */
  readonly harmlessValue: string
  /** Whether Triton has the flag too. */
  readonly isTritons: boolean
}

type Traits = Partial<Pick<FlagSpec, 'status' | 'isRepeatable' | 'tritonDefault' | 'harmlessValue' | 'isTritons'>>

const boolean: FlagForm = { kind: 'boolean' }
const text = (placeholder: string): FlagForm => ({ kind: 'text', placeholder })
const integer = (min: number, max: number = 2 ** 31 - 1): FlagForm => ({ kind: 'integer', min, max })
const choice = (...choices: string[]): FlagForm => ({ kind: 'choice', choices })
const checked = (placeholder: string, check: (flag: string, value: string) => void): FlagForm => ({
  kind: 'checked',
  placeholder,
  check,
})
const port = integer(0, 65535)
const seconds: FlagForm = { kind: 'seconds', min: 0.001 }
const bytes = integer(1, Number.MAX_SAFE_INTEGER)
const ms = integer(0)

const accepted: Traits = { status: 'accepted' }
const deprecated: Traits = { status: 'deprecated' }
const ours: Traits = { isTritons: false }
const repeatable: Traits = { isRepeatable: true }

const table: FlagSpec[] = []
let group = ''
function flag(name: string, form: FlagForm, fallback: string, help: string, traits: Traits = {}): void {
  table.push({
    name,
    group,
    form,
    default: fallback,
    tritonDefault: traits.tritonDefault ?? fallback,
    help,
    status: traits.status ?? 'works',
    isRepeatable: traits.isRepeatable ?? false,
    harmlessValue: traits.harmlessValue ?? '',
    isTritons: traits.isTritons ?? true,
  })
}

group = 'Models'
flag(
  'model-repository',
  text('PATH'),
  '',
  'Folder of models to serve, or s3://, gs://, as://, or the http(s):// address of a .tar.gz',
  repeatable,
)
flag('model-store', text('PATH'), '', 'The old name of --model-repository', { ...repeatable, status: 'deprecated' })
flag('examples', boolean, 'false', 'Serve the example models that come with Galatea', ours)
flag(
  'model-control-mode',
  choice('none', 'poll', 'explicit'),
  'none',
  'none: load all at start; poll: and follow changes; explicit: load what is asked for',
)
flag('load-model', text('NAME'), '', "Model to load at start in explicit mode; '*' alone loads all", repeatable)
flag('repository-poll-secs', integer(0), '15', 'Seconds between two looks at the repository in poll mode; 0 for none')
flag(
  'model-cache-dir',
  text('PATH'),
  '',
  'Folder for what is downloaded from cloud repositories; without one ~/.cache/galatea/models',
  ours,
)
flag(
  'model-cache-limit',
  checked('SIZE', checkers.byteSize),
  '64GB',
  'Size above which downloaded files that no server uses are removed, longest unused first: 20GB, 500MiB, unlimited',
  ours,
)
flag('model-config-name', text('NAME'), '', 'Read configs/NAME.pbtxt of a model in place of its config.pbtxt')
flag('disable-auto-complete-config', { kind: 'switch' }, 'false', 'Do not fill in what config.pbtxt leaves out')
flag('strict-model-config', boolean, 'false', 'Use --disable-auto-complete-config', { status: 'deprecated' })
flag('model-load-thread-count', integer(1), '4', 'How many models load at the same time')
flag('model-load-retry-count', integer(0), '0', 'How often a load that failed is tried again')
flag(
  'model-memory-limit',
  checked('SIZE', checkers.byteSize),
  'unlimited',
  'Most memory that models take together, such as 8GiB; those idle longest are unloaded to make room for others',
  ours,
)
flag('model-lazy-load', boolean, 'false', 'Load each model on the first request for it', ours)
flag(
  'model-idle-unload-secs',
  integer(0),
  '0',
  'Unload a model after so many seconds without a request and load it again on the next; 0 for never',
  ours,
)
flag('model-namespacing', boolean, 'false', 'Allow the same model name in several repositories')
flag('backend-directory', text('PATH'), '', 'Folder of custom backends: PATH/<name>/backend.ts')
flag('backend-config', checked('[BACKEND,]KEY=VALUE', checkers.backendConfig), '', 'Setting for one or all backends', {
  ...repeatable,
})
flag('allow-pickle-models', boolean, 'false', 'Load scikit-learn models that are pickles: they can run any code', ours)
flag(
  'default-max-queue-size',
  checked('auto|unlimited|N', checkers.queueSize),
  'auto',
  'Queue bound of a model that sets no max_queue_size; auto = max(100, 8 × max_batch_size × instances)',
  { ...ours, tritonDefault: 'unlimited' },
)

group = 'Server'
flag('id', text('NAME'), 'galatea', 'Name of this server in GET /v2', { tritonDefault: 'triton' })
flag('triton-defaults', boolean, 'false', "Use Triton's defaults where Galatea's are safer", ours)
flag('exit-on-error', boolean, 'true', 'Exit when a model fails to load at start')
flag('exit-timeout-secs', integer(0), '30', 'How long running requests may take to finish at shutdown')
flag('strict-readiness', boolean, 'true', 'Be ready only when every model is')
flag(
  'live-check',
  choice('server', 'compute'),
  'server',
  'What liveness tells of: the server alone, or every worker too',
  ours,
)
flag(
  'live-timeout-secs',
  seconds,
  '10',
  'Without a sign of life for so long a worker hangs (--live-check=compute)',
  ours,
)
flag('allow-client-shared-memory', boolean, 'false', 'Let clients on this machine register shared memory', {
  ...ours,
  tritonDefault: 'true',
})
flag('allow-client-shm', boolean, 'false', 'The same as --allow-client-shared-memory', { tritonDefault: 'true' })

group = 'HTTP'
flag('allow-http', boolean, 'true', 'Serve HTTP/REST')
flag('http-address', text('ADDRESS'), '127.0.0.1', 'Address to listen on; 0.0.0.0 for all', {
  tritonDefault: '0.0.0.0',
})
flag('http-port', port, '8000', 'Port to listen on; 0 takes a free one and prints it')
flag('reuse-http-port', boolean, 'false', 'Let several servers share the port (SO_REUSEPORT)')
flag('http-max-input-size', bytes, '67108864', 'Most bytes of a request body, as sent and decompressed')
flag('http-header-forward-pattern', text('REGEX'), '', 'Request headers whose name matches become parameters')
flag(
  'http-cors-origin',
  checked('ORIGIN,ORIGIN|*', (name, value) => void parseCorsOrigins(name, value)),
  '',
  'Origins whose web pages may call the server from a browser',
  { ...ours, ...repeatable },
)
flag(
  'http-restricted-api',
  checked('API,API:KEY=VALUE', checkers.restrictedApis),
  '',
  'These APIs answer only to requests with the header KEY: VALUE',
  repeatable,
)
flag('http-headers-timeout-secs', seconds, '10', 'Time a client has to send its headers', ours)
flag('http-body-idle-timeout-secs', seconds, '30', 'Longest pause while a body is received', ours)
flag('http-write-idle-timeout-secs', seconds, '30', 'How long a client may take no byte of its answer', ours)
flag('http-keep-alive-timeout-secs', seconds, '75', 'How long an idle connection is kept', ours)
flag('http-max-connections', integer(0), '0', 'Most connections at a time; 0 = as many as the system gives', ours)
flag('http-max-header-size', integer(1024, 1048576), '16384', 'Most bytes of a request line and its headers', ours)
flag('http-use-ssl', boolean, 'false', 'Serve over TLS', ours)
flag('http-use-ssl-mutual', boolean, 'false', 'Serve over TLS and ask clients for a certificate', ours)
flag('http-server-cert', text('FILE'), '', 'PEM certificate of the server, read again when it changes', ours)
flag('http-server-key', text('FILE'), '', 'PEM key of the server', ours)
flag('http-root-cert', text('FILE'), '', 'PEM certificate authorities for clients', ours)
flag('http-thread-count', integer(1), '8', 'Threads of the HTTP server', accepted)

group = 'Request limits'
flag('max-request-tensors', integer(1), '256', 'Most inputs, and most outputs, of one request', ours)
flag('max-tensor-rank', integer(1, 255), '16', 'Most dimensions of a tensor', ours)
flag('max-request-parameters', integer(0), '256', 'Most parameters of one request', ours)
flag('max-request-id-bytes', integer(0), '1024', 'Longest request id', ours)

group = 'Log'
flag('log-verbose', { kind: 'verbosity' }, '0', 'Level of verbose lines; 0 = none')
flag('log-info', boolean, 'true', 'Write lines of level INFO')
flag('log-warning', boolean, 'true', 'Write lines of level WARNING')
flag('log-error', boolean, 'true', 'Write lines of level ERROR')
flag(
  'log-format',
  choice('default', 'ISO8601', 'json'),
  'default',
  "Triton's line, the same with ISO time, or JSON lines",
)
flag('log-file', text('PATH'), '', 'Append all lines to this file instead of stdout and stderr')
flag('access-log', text('PATH'), '', 'Write a JSON line per request to this file; - for stdout', ours)
flag(
  'audit-log',
  text('PATH'),
  '',
  'Append a JSON line for every load and unload of a model, who asked and how it ended; SIGHUP opens the file anew',
  ours,
)

group = 'gRPC'
flag('allow-grpc', boolean, 'true', 'Serve gRPC')
flag('grpc-address', text('ADDRESS'), '127.0.0.1', 'Address to listen on', { tritonDefault: '0.0.0.0' })
flag('grpc-port', port, '8001', 'Port to listen on')
flag('reuse-grpc-port', boolean, 'false', 'Let several servers share the port')
flag('grpc-max-message-size', integer(1), '67108864', 'Most bytes of a message, also after decompression', {
  ...ours,
  tritonDefault: '2147483647',
})
flag('grpc-max-stream-backlog', bytes, '1048576', 'Most bytes a stream keeps for a client that does not read', ours)
flag('grpc-header-forward-pattern', text('REGEX'), '', 'Metadata whose name matches becomes parameters')
flag('grpc-infer-thread-count', integer(2, 128), '2', 'Threads that take requests', accepted)
flag('grpc-infer-allocation-pool-size', integer(1), '8', 'Request objects kept for reuse', accepted)
flag('grpc-max-response-pool-size', integer(1), '2147483647', 'Response objects kept for reuse', accepted)
flag('grpc-use-ssl', boolean, 'false', 'Serve over TLS')
flag('grpc-use-ssl-mutual', boolean, 'false', 'Ask clients for a certificate')
flag('grpc-server-cert', text('FILE'), '', 'PEM certificate of the server')
flag('grpc-server-key', text('FILE'), '', 'PEM key of the server')
flag('grpc-root-cert', text('FILE'), '', 'PEM certificate authorities for clients')
flag(
  'grpc-infer-response-compression-level',
  choice('none', 'low', 'medium', 'high'),
  'none',
  'Compression of responses',
)
flag('grpc-keepalive-time', ms, '7200000', 'Milliseconds between keep-alive pings')
flag('grpc-keepalive-timeout', ms, '20000', 'Milliseconds to wait for the answer to a ping')
flag('grpc-keepalive-permit-without-calls', boolean, 'false', 'Ping connections without calls')
flag('grpc-http2-max-pings-without-data', integer(0), '2', 'Most pings without data between them')
flag('grpc-http2-min-recv-ping-interval-without-data', ms, '300000', 'Least milliseconds between pings')
flag('grpc-http2-max-ping-strikes', integer(0), '2', 'Bad pings before a connection is closed')
flag('grpc-max-connection-age', ms, '', 'Milliseconds after which a connection is closed')
flag('grpc-max-connection-age-grace', ms, '', 'Milliseconds it has left then')
flag(
  'grpc-restricted-protocol',
  checked('API,API:KEY=VALUE', checkers.restrictedApis),
  '',
  'These APIs answer only to requests with that metadata',
  repeatable,
)

group = 'Metrics and trace'
flag('allow-metrics', boolean, 'true', 'Serve metrics')
flag('allow-gpu-metrics', boolean, 'true', 'Report GPUs, where nvidia-smi is')
flag('allow-cpu-metrics', boolean, 'true', 'Report CPU and memory')
flag('metrics-address', text('ADDRESS'), '', 'Address to listen on; that of HTTP when not set')
flag('metrics-port', port, '8002', 'Port to listen on')
flag('metrics-interval-ms', integer(1), '2000', 'Milliseconds between two looks at the hardware')
flag(
  'metrics-config',
  checked('KEY=VALUE', checkers.setting),
  '',
  'Which metrics there are, such as summary_latencies=true',
  repeatable,
)
flag('galatea-metrics', boolean, 'true', 'Serve the metrics that Triton does not have, too', {
  ...ours,
  tritonDefault: 'false',
})
flag('trace-config', checked('[MODE,]KEY=VALUE', checkers.setting), '', 'Which requests are traced', repeatable)
flag('trace-file', text('FILE'), '', 'Use --trace-config', deprecated)
flag('trace-level', choice('OFF', 'TIMESTAMPS', 'TENSORS'), 'OFF', 'Use --trace-config', {
  ...deprecated,
  ...repeatable,
})
flag('trace-rate', integer(0), '1000', 'Use --trace-config', deprecated)
flag('trace-count', integer(-1), '-1', 'Use --trace-config', deprecated)
flag('trace-log-frequency', integer(0), '0', 'Use --trace-config', deprecated)

group = 'Cache, rate limiter, devices'
flag(
  'cache-config',
  checked('CACHE,KEY=VALUE', checkers.setting),
  '',
  'Response cache: local,size=BYTES, or redis,host=NAME and redis,port=N',
  repeatable,
)
flag('cache-directory', text('PATH'), '', 'Folder of cache implementations', accepted)
flag('response-cache-byte-size', integer(0, Number.MAX_SAFE_INTEGER), '0', 'Use --cache-config', deprecated)
flag(
  'rate-limit',
  choice('off', 'execution_count'),
  'off',
  'execution_count: an instance runs only while its resources are free',
)
flag(
  'rate-limit-resource',
  checked('NAME:COUNT[:DEVICE]', checkers.rateLimitResource),
  '',
  'How much there is of a resource that instances claim, on each device or on one',
  repeatable,
)
flag('repoagent-directory', text('PATH'), '', 'Folder of repository agents', accepted)
flag('host-policy', checked('POLICY,KEY=VALUE', checkers.setting), '', 'Cores and memory of instances', {
  ...accepted,
  ...repeatable,
})
flag('enable-peer-access', boolean, 'true', 'Let GPUs reach each other', { ...accepted, harmlessValue: 'false' })
flag('pinned-memory-pool-byte-size', integer(0, Number.MAX_SAFE_INTEGER), '268435456', 'Pinned memory', accepted)
flag('cuda-memory-pool-byte-size', checked('GPU:BYTES', checkers.perDevice), '', 'Memory per GPU', {
  ...accepted,
  ...repeatable,
})
flag('cuda-virtual-address-size', checked('GPU:BYTES', checkers.perDevice), '', 'Address space per GPU', {
  ...accepted,
  ...repeatable,
})
flag('min-supported-compute-capability', checked('X.Y', checkers.number), '6.0', 'Oldest GPU that is used', accepted)
flag('buffer-manager-thread-count', integer(0), '0', 'Threads that copy tensors', accepted)
flag('model-load-gpu-limit', checked('GPU:FRACTION', checkers.perDevice), '', 'Most memory of a GPU for models', {
  ...accepted,
  ...repeatable,
})

group = 'Cloud front ends'
flag('allow-sagemaker', boolean, 'false', 'Serve SageMaker', { ...accepted, harmlessValue: 'false' })
flag('sagemaker-port', port, '8080', 'Port to listen on', accepted)
flag('sagemaker-thread-count', integer(1), '8', 'Threads', accepted)
flag('sagemaker-safe-port-range', checked('FROM-TO', checkers.portRange), '', 'Ports that may be used', accepted)
flag('allow-vertex-ai', boolean, 'false', 'Serve Vertex AI', { ...accepted, harmlessValue: 'false' })
flag('vertex-ai-port', port, '8080', 'Port to listen on', accepted)
flag('vertex-ai-thread-count', integer(1), '8', 'Threads', accepted)
flag('vertex-ai-default-model', text('NAME'), '', 'Model that answers', accepted)

export const flagTable: readonly FlagSpec[] = table

export const flagsByName: ReadonlyMap<string, FlagSpec> = new Map(table.map((spec) => [spec.name, spec]))

/** GALATEA_HTTP_PORT for http-port. */
export const environmentName = (flagName: string): string => `GALATEA_${flagName.toUpperCase().replaceAll('-', '_')}`

/** What --help and the reference show for the value: `<ADDRESS>`, `true|false`, … */
export function placeholderOf(form: FlagForm): string {
  if (form.kind === 'text' || form.kind === 'checked') return form.placeholder
  if (form.kind === 'choice') return form.choices.join('|')
  return { boolean: 'true|false', switch: '', verbosity: 'N', integer: 'N', seconds: 'SECONDS' }[form.kind]
}

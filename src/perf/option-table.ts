// The options of `galatea perf`: perf_analyzer's names and defaults, and a few of our own.

export type PerfOptionSpec = {
  readonly name: string
  /** One letter, or ''. */
  readonly short: string
  /** What stands for the value in the help; '' for a switch. */
  readonly value: string
  readonly group: string
  readonly default: string
  readonly help: string
}

const groups = {
  general: 'General',
  load: 'Load',
  measurement: 'Measurement',
  sequence: 'Sequences',
  input: 'Input data',
  request: 'Requests',
  server: 'Server',
  metrics: 'Metrics of the server',
  report: 'Reports',
  trace: 'Traces of the server',
  deprecated: 'Deprecated',
  elsewhere: 'Of other service kinds (refused)',
} as const

const option = (
  group: keyof typeof groups,
  names: string,
  value: string,
  defaultText: string,
  help: string,
): PerfOptionSpec => {
  const [name = '', short = ''] = names.split(' ')
  return { name, short, value, group: groups[group], default: defaultText, help }
}

export const perfOptions: readonly PerfOptionSpec[] = [
  option('general', 'model-name m', 'NAME', '', 'The model to measure. Required.'),
  option('general', 'model-version x', 'VERSION', 'latest', 'The version of the model.'),
  option('general', 'service-kind', 'KIND', 'triton', 'What kind of server is measured.'),
  option(
    'general',
    'bls-composing-models',
    'A:1,B',
    '',
    'Models that the model calls by itself: their statistics are shown too.',
  ),
  option(
    'general',
    'verbose v',
    '',
    '',
    'One line per window, and the times of the client in detail. Twice: also the settings.',
  ),
  option('general', 'version', '', '', 'Show the version.'),
  option('general', 'help h', '', '', 'Show this text.'),

  option(
    'load',
    'concurrency-range',
    'START:END:STEP',
    '1:1:1',
    'Requests under way at once. END 0: until the latency threshold is passed.',
  ),
  option(
    'load',
    'request-rate-range',
    'START:END:STEP',
    '',
    'Requests per second, whatever the server answers (open loop).',
  ),
  option('load', 'request-distribution', 'constant|poisson', 'constant', 'How the requests of a rate are spread.'),
  option(
    'load',
    'request-intervals',
    'FILE',
    '',
    'Microseconds between requests, one number per line, again and again (open loop).',
  ),
  option(
    'load',
    'periodic-concurrency-range',
    'START:END:STEP',
    '',
    'Begin with START requests and add STEP whenever each of the last ones has had --request-period responses, END in all. Needs --profile-export-file.',
  ),
  option('load', 'request-period', 'N', '10', 'Responses after which --periodic-concurrency-range adds requests.'),
  option(
    'load',
    'binary-search',
    '',
    '',
    'Search the range for the highest load under the latency threshold by halving it.',
  ),
  option('load', 'latency-threshold l', 'MS', '0', 'Loads with a longer latency end the search. 0: no limit.'),
  option(
    'load',
    'max-threads',
    'N',
    '16, 4 with a rate',
    'Threads that make the load, at most. One is used until it is not enough.',
  ),
  option(
    'load',
    'request-count',
    'N',
    '0',
    'Send this many requests and measure them as one window. 0: windows until the figures are stable.',
  ),
  option('load', 'warmup-request-count', 'N', '0', 'Requests to send before each measurement.'),
  option('load', 'seed', 'N', '1', 'For random data, Poisson arrivals and lengths of sequences.'),

  option('measurement', 'measurement-mode', 'time_windows|count_windows', 'time_windows', 'What ends a window.'),
  option('measurement', 'measurement-interval p', 'MS', '5000', 'Length of a window.'),
  option('measurement', 'measurement-request-count', 'N', '50', 'Requests of a window with count_windows, at least.'),
  option(
    'measurement',
    'stability-percentage s',
    'PERCENT',
    '10',
    'How much throughput and latency of three windows may differ.',
  ),
  option('measurement', 'max-trials r', 'N', '10', 'Windows after which a load that is not stable is given up.'),
  option(
    'measurement',
    'percentile',
    'P',
    '-1',
    'The latency that counts for stability and threshold. -1: the average.',
  ),

  option('sequence', 'num-of-sequences', 'N', '4', 'Sequences beside each other with a request rate or intervals.'),
  option(
    'sequence',
    'sequence-length',
    'N',
    '20',
    'Requests per sequence. With data from a file: as many as its stream has.',
  ),
  option('sequence', 'sequence-length-variation', 'PERCENT', '20', 'How much the lengths differ.'),
  option('sequence', 'sequence-id-range', 'START[:END]', '1', 'Ids of the sequences.'),
  option('sequence', 'serial-sequences', '', '', 'Never two requests of a sequence at once. It is always so here.'),

  option(
    'input',
    'input-data',
    'random|zero|PATH',
    'random',
    'What to send: a JSON file, a folder with one file per input, or made up. May be repeated.',
  ),
  option('input', 'batch-size b', 'N', '1', 'Rows per request.'),
  option(
    'input',
    'shape',
    'NAME:D,D',
    '',
    'Shape of an input with open dimensions, without the batch. May be repeated.',
  ),
  option('input', 'string-length', 'N', '128', 'Length of random strings.'),
  option('input', 'string-data', 'TEXT', '', 'Every string, instead of a random one.'),
  option('input', 'shared-memory', 'none|system|cuda', 'none', 'Where inputs and outputs are.'),
  option('input', 'output-shared-memory-size', 'BYTES', '102400', 'Room for each output in shared memory.'),
  option('input', 'input-tensor-format', 'binary|json', 'binary', 'How inputs travel over HTTP.'),
  option('input', 'output-tensor-format', 'binary|json', 'binary', 'How outputs travel over HTTP.'),

  option('request', 'protocol i', 'http|grpc', 'http', 'Protocol.'),
  option(
    'request',
    'async a',
    '',
    '',
    'Asynchronous calls: throughput decides on stability when latency will not settle.',
  ),
  option('request', 'sync', '', '', 'Synchronous calls.'),
  option('request', 'streaming', '', '', 'Requests on streams (gRPC). Decoupled models need it.'),
  option('request', 'header H', 'NAME:VALUE', '', 'Send with every request. May be repeated.'),
  option(
    'request',
    'request-parameter',
    'NAME:VALUE:TYPE',
    '',
    'Parameter of every request; TYPE is string, int, uint, bool or float. May be repeated.',
  ),
  option('request', 'grpc-compression-algorithm', 'none|gzip|deflate', 'none', 'Pack requests.'),

  option(
    'server',
    'url u',
    'HOST:PORT',
    'localhost:8000, localhost:8001 for gRPC',
    'Where the server is. https:// asks for TLS; with HTTP a path may follow.',
  ),
  option('server', 'ssl-grpc-use-ssl', '', '', 'TLS for gRPC.'),
  option('server', 'ssl-grpc-root-certifications-file', 'FILE', '', 'Whom to trust.'),
  option('server', 'ssl-grpc-private-key-file', 'FILE', '', 'The key of this client.'),
  option('server', 'ssl-grpc-certificate-chain-file', 'FILE', '', 'The certificate of this client.'),
  option('server', 'ssl-https-verify-peer', '0|1', '1', 'Check who signed the certificate of the server.'),
  option('server', 'ssl-https-verify-host', '0|1|2', '2', 'Check the name in it.'),
  option('server', 'ssl-https-ca-certificates-file', 'FILE', '', 'Whom to trust.'),
  option('server', 'ssl-https-client-certificate-file', 'FILE', '', 'The certificate of this client.'),
  option('server', 'ssl-https-client-certificate-type', 'PEM|DER', 'PEM', 'What it is written in.'),
  option('server', 'ssl-https-private-key-file', 'FILE', '', 'The key of this client.'),
  option('server', 'ssl-https-private-key-type', 'PEM|DER', 'PEM', 'What it is written in.'),

  option('metrics', 'collect-metrics', '', '', "Read the server's metrics while measuring."),
  option('metrics', 'metrics-url', 'URL', 'HOST:8002/metrics', 'Where they are.'),
  option('metrics', 'metrics-interval', 'MS', '1000', 'How often to read them.'),

  option('report', 'filename f', 'FILE', '', 'Write the results as CSV.'),
  option('report', 'verbose-csv', '', '', 'More columns in it.'),
  option(
    'report',
    'profile-export-file',
    'FILE',
    '',
    'Write every request and response with its time, as JSON. The file must not exist yet.',
  ),
  option(
    'report',
    'report',
    'FILE.html',
    '',
    'Write a page with charts: throughput and latency, latencies, batch sizes.',
  ),

  option('trace', 'trace-level', 'OFF|TIMESTAMPS|TENSORS', '', 'Set before the measurement. May be repeated.'),
  option('trace', 'trace-rate', 'N', '1000', 'Set before the measurement.'),
  option('trace', 'trace-count', 'N', '-1', 'Set before the measurement.'),
  option('trace', 'log-frequency', 'N', '0', 'Set before the measurement.'),

  option('deprecated', 'data-directory', 'PATH', '', 'Now --input-data.'),
  option('deprecated', 'max-concurrency c', 'N', '', 'Now the END of --concurrency-range, with -d.'),
  option('deprecated', 'dynamic d', '', '', 'Now --concurrency-range.'),
  option('deprecated', 'threads t', 'N', '', 'Now the START of --concurrency-range.'),
  option('deprecated', 'zero z', '', '', 'Now --input-data zero.'),
  option('deprecated', 'trace-file', 'FILE', '', 'Servers choose the file themselves.'),

  option(
    'elsewhere',
    'model-signature-name',
    'NAME',
    'serving_default',
    'TensorFlow Serving. Ignored, as perf_analyzer does.',
  ),
  option('elsewhere', 'endpoint', 'PATH', '', 'OpenAI.'),
  option('elsewhere', 'session-concurrency', 'N', '', 'OpenAI.'),
  option('elsewhere', 'fixed-schedule', '', '', 'OpenAI.'),
  option('elsewhere', 'grpc-method', 'NAME', '', 'dynamic_grpc.'),
  option('elsewhere', 'proto', 'FILE', '', 'dynamic_grpc.'),
  option('elsewhere', 'triton-server-directory', 'PATH', '', 'triton_c_api.'),
  option('elsewhere', 'model-repository', 'PATH', '', 'triton_c_api.'),
  option('elsewhere', 'enable-mpi', '', '', 'Several models by MPI.'),
]

export const optionGroups: readonly string[] = Object.values(groups)

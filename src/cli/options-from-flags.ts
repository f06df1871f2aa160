// The flags' values → ServerOptions, and the rules that join several flags.

import type { GrpcOptions } from '../ports/grpc/grpc-options.ts'
import type { HttpOptions, RestrictedApis } from '../ports/http/http-options.ts'
import type { LogFormat, LogSettings, ModelControlMode, ServerOptions } from '../options/server-options.ts'
import { badOption, FlagError, parseByteSize, parseQueueSize, parseRestrictedApis, parseSetting } from './flag-forms.ts'
import type { Environment, Flags } from './flags.ts'
import { metricsOptions } from './metrics-flags.ts'
import { responseCacheOptions } from './cache-flags.ts'
import { parseCorsOrigins } from './cors-origins.ts'
import { rateLimit } from './rate-limit-flags.ts'
import { traceOptions } from './trace-flags.ts'

/** The version that answers `GET /v2` with --triton-defaults: the one whose behaviour was recorded. */
const tritonVersion = '2.51.0'

export type Surroundings = {
  readonly environment: Environment
  /** Galatea's own version. */
  readonly version: string
  /** Where the example models lie. */
  readonly examplesPath: string
}

export function optionsFromFlags(flags: Flags, surroundings: Surroundings): ServerOptions {
  const hasTritonDefaults = flags.isOn('triton-defaults')
  const modelControlMode = flags.text('model-control-mode') as ModelControlMode
  const loadModels = unique(flags.all('load-model'))
  if (loadModels.length > 0 && modelControlMode !== 'explicit') {
    throw new FlagError("Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.")
  }
  if (loadModels.includes('*') && loadModels.length > 1) {
    throw new FlagError("Error: Wildcard model name '*' must be the ONLY startup model if specified at all.")
  }
  refusePortCollision(flags)
  const requestLimits = {
    maxTensors: flags.integer('max-request-tensors'),
    maxRank: flags.integer('max-tensor-rank'),
    maxParameters: flags.integer('max-request-parameters'),
    maxIdBytes: flags.integer('max-request-id-bytes'),
  }
  return {
    engine: {
      id: flags.text('id'),
      reportedVersion: hasTritonDefaults ? tritonVersion : surroundings.version,
      modelRepositories: modelRepositories(flags, surroundings),
      modelCacheDirectory: flags.text('model-cache-dir'),
      modelCacheLimitBytes: parseByteSize('model-cache-limit', flags.text('model-cache-limit')),
      modelControlMode,
      repositoryPollSecs: flags.integer('repository-poll-secs'),
      loadModels,
      modelConfigName: flags.text('model-config-name'),
      hasModelNamespacing: flags.isOn('model-namespacing'),
      isAutoCompleteDisabled: flags.isOn('disable-auto-complete-config') || flags.isOn('strict-model-config'),
      isStrictReadiness: flags.isOn('strict-readiness'),
      backendDirectory: flags.text('backend-directory'),
      backendConfig: backendConfig(flags),
      allowsPickleModels: flags.isOn('allow-pickle-models'),
      modelLoadThreadCount: flags.integer('model-load-thread-count'),
      modelLoadRetryCount: flags.integer('model-load-retry-count'),
      modelMemoryLimitBytes: finite(parseByteSize('model-memory-limit', flags.text('model-memory-limit'))),
      isModelLoadLazy: flags.isOn('model-lazy-load'),
      modelIdleUnloadSecs: flags.integer('model-idle-unload-secs'),
      defaultMaxQueueSize: parseQueueSize('default-max-queue-size', flags.text('default-max-queue-size')),
      prunesEnsemblesLikeTriton: hasTritonDefaults,
      responseCache: responseCacheOptions(flags),
      rateLimit: rateLimit(flags),
    },
    http: flags.isOn('allow-http') ? { ...httpOptions(flags, hasTritonDefaults), requestLimits } : null,
    grpc: flags.isOn('allow-grpc') ? { ...grpcOptions(flags), requestLimits } : null,
    metrics: metricsOptions(flags, surroundings.environment),
    trace: traceOptions(flags, surroundings.environment),
    process: {
      log: logSettings(flags),
      accessLogFile: flags.text('access-log'),
      auditLogFile: flags.text('audit-log'),
      allowsClientSharedMemory: flags.isOn(
        flags.isGiven('allow-client-shm') ? 'allow-client-shm' : 'allow-client-shared-memory',
      ),
      exitOnError: flags.isOn('exit-on-error'),
      exitTimeoutSecs: flags.integer('exit-timeout-secs'),
      liveCheckTimeoutSecs: flags.text('live-check') === 'compute' ? Number(flags.text('live-timeout-secs')) : 0,
    },
  }
}

/** 0 stands for no limit. */
const finite = (bytes: number): number => (bytes === Infinity ? 0 : bytes)

export function logSettings(flags: Flags): LogSettings {
  return {
    file: flags.text('log-file'),
    isInfoOn: flags.isOn('log-info'),
    isWarningOn: flags.isOn('log-warning'),
    isErrorOn: flags.isOn('log-error'),
    verboseLevel: flags.integer('log-verbose'),
    format: flags.text('log-format') as LogFormat,
  }
}

function modelRepositories(flags: Flags, surroundings: Surroundings): string[] {
  const named = [...flags.all('model-repository'), ...flags.all('model-store')]
  const fromEnvironment = surroundings.environment['MODEL_REPOSITORY_PATH'] ?? ''
  if (named.length === 0 && fromEnvironment !== '') named.push(fromEnvironment)
  if (flags.isOn('examples')) named.push(surroundings.examplesPath)
  if (named.length === 0) {
    throw new FlagError(
      'no model repository: name a folder of models with --model-repository, or try the examples with --examples',
    )
  }
  if (named.includes('')) throw badOption('model-repository', 'the path is empty')
  return unique(named)
}

function httpOptions(flags: Flags, hasTritonDefaults: boolean): Omit<HttpOptions, 'requestLimits'> {
  const restrictedApis = restrictedBy(flags, 'http-restricted-api', 'api')
  return {
    address: flags.text('http-address'),
    port: flags.integer('http-port'),
    reusePort: flags.isOn('reuse-http-port'),
    maxInputBytes: flags.integer('http-max-input-size'),
    boundsBinaryBodies: !hasTritonDefaults,
    headersTimeoutMs: flags.milliseconds('http-headers-timeout-secs'),
    bodyIdleTimeoutMs: flags.milliseconds('http-body-idle-timeout-secs'),
    writeIdleTimeoutMs: flags.milliseconds('http-write-idle-timeout-secs'),
    keepAliveTimeoutMs: flags.milliseconds('http-keep-alive-timeout-secs'),
    maxConnections: flags.integer('http-max-connections'),
    maxHeaderBytes: flags.integer('http-max-header-size'),
    headerForwardPattern: flags.text('http-header-forward-pattern'),
    corsOrigins: unique(flags.all('http-cors-origin').flatMap((value) => parseCorsOrigins('http-cors-origin', value))),
    restrictedApis,
    tls: httpTls(flags),
  }
}

function httpTls(flags: Flags): HttpOptions['tls'] {
  const isMutual = flags.isOn('http-use-ssl-mutual')
  if (!isMutual && !flags.isOn('http-use-ssl')) return null
  const required = isMutual ? ['server-cert', 'server-key', 'root-cert'] : ['server-cert', 'server-key']
  for (const name of required) {
    if (flags.text(`http-${name}`) !== '') continue
    throw badOption(
      `http-${name}`,
      `it must name a PEM file when HTTP is served over TLS${isMutual ? ' to clients with certificates' : ''}`,
    )
  }
  return {
    certificate: flags.text('http-server-cert'),
    key: flags.text('http-server-key'),
    root: isMutual ? flags.text('http-root-cert') : '',
    isMutual,
  }
}

function grpcOptions(flags: Flags): Omit<GrpcOptions, 'requestLimits'> {
  const isMutual = flags.isOn('grpc-use-ssl-mutual')
  const tls = {
    certificate: flags.text('grpc-server-cert'),
    key: flags.text('grpc-server-key'),
    root: flags.text('grpc-root-cert'),
    isMutual,
  }
  const optionalMs = (name: string): number => (flags.text(name) === '' ? 0 : flags.integer(name))
  return {
    address: flags.text('grpc-address'),
    port: flags.integer('grpc-port'),
    reusePort: flags.isOn('reuse-grpc-port'),
    maxMessageBytes: flags.integer('grpc-max-message-size'),
    maxBacklogBytes: flags.integer('grpc-max-stream-backlog'),
    // As in Triton, mutual TLS is TLS.
    tls: flags.isOn('grpc-use-ssl') || isMutual ? tls : null,
    compressionLevel: flags.text('grpc-infer-response-compression-level') as GrpcOptions['compressionLevel'],
    keepaliveTimeMs: flags.integer('grpc-keepalive-time'),
    keepaliveTimeoutMs: flags.integer('grpc-keepalive-timeout'),
    keepaliveWithoutCalls: flags.isOn('grpc-keepalive-permit-without-calls'),
    maxPingsWithoutData: flags.integer('grpc-http2-max-pings-without-data'),
    minPingIntervalMs: flags.integer('grpc-http2-min-recv-ping-interval-without-data'),
    maxPingStrikes: flags.integer('grpc-http2-max-ping-strikes'),
    maxConnectionAgeMs: optionalMs('grpc-max-connection-age'),
    maxConnectionAgeGraceMs: optionalMs('grpc-max-connection-age-grace'),
    headerForwardPattern: flags.text('grpc-header-forward-pattern'),
    restrictedProtocols: restrictedBy(flags, 'grpc-restricted-protocol', 'protocol'),
  }
}

/** One API may be named in one group only. */
function restrictedBy(flags: Flags, flag: string, noun: string): RestrictedApis[] {
  const groups = flags.all(flag).map((value) => parseRestrictedApis(flag, value))
  const seen = new Set<string>()
  for (const api of groups.flatMap((group) => group.apis)) {
    if (seen.has(api)) {
      throw badOption(flag, `restricted ${noun} '${api}' can not be specified in multiple config groups`)
    }
    seen.add(api)
  }
  return groups
}

function backendConfig(flags: Flags): Map<string, Map<string, string>> {
  const config = new Map<string, Map<string, string>>()
  for (const value of flags.all('backend-config')) {
    const setting = parseSetting('backend-config', value)
    const settings = config.get(setting.owner) ?? new Map<string, string>()
    settings.set(setting.key, setting.value)
    config.set(setting.owner, settings)
  }
  return config
}

type Endpoint = { readonly name: string; readonly flag: string; readonly address: string; readonly port: number }

// Endpoints that this version does not open are checked too: a command line that is refused by the next version, or by
// Triton, should not pass in this one.
function refusePortCollision(flags: Flags): void {
  const httpAddress = flags.text('http-address')
  const all: (Endpoint & { allow: string })[] = [
    { name: 'HTTP', flag: 'http-port', allow: 'allow-http', address: httpAddress, port: flags.integer('http-port') },
    {
      name: 'GRPC',
      flag: 'grpc-port',
      allow: 'allow-grpc',
      address: flags.text('grpc-address'),
      port: flags.integer('grpc-port'),
    },
    {
      name: 'metrics',
      flag: 'metrics-port',
      allow: 'allow-metrics',
      address: flags.text('metrics-address') || httpAddress,
      port: flags.integer('metrics-port'),
    },
  ]
  const open = all.filter((endpoint) => endpoint.port !== 0 && flags.isOn(endpoint.allow))
  for (const [i, one] of open.entries()) {
    const other = open.slice(i + 1).find((candidate) => collide(one, candidate))
    if (other !== undefined) {
      throw new FlagError(
        `The server cannot listen to ${one.name} requests and ${other.name} requests at the same port\n` +
          `both are at ${one.address}:${one.port}: change --${one.flag} or --${other.flag}`,
      )
    }
  }
}

const wildcards = new Set(['0.0.0.0', '::', ''])

const collide = (one: Endpoint, other: Endpoint): boolean =>
  one.port === other.port &&
  (one.address === other.address || wildcards.has(one.address) || wildcards.has(other.address))

const unique = (words: readonly string[]): string[] => [...new Set(words)]

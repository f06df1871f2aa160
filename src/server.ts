// The composition root: builds the object graph by hand. The only file that names concrete backends and front ends.

import type { AccessLog } from './base/access-log.ts'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import type { LogControl } from './base/log-control.ts'
import { Engine } from './engine/engine.ts'
import type { IndexEntry } from './engine/serving/index-entry.ts'
import { LiveCheck, type WatchedInstance } from './engine/live-check.ts'
import { RepositoryPoller } from './engine/lifecycle/repository-poller.ts'
import type { ResponseCache } from './model/response-cache.ts'
import { SharedMemoryRegistry } from './engine/shared-memory/shared-memory-registry.ts'
import type { HttpPort } from './ports/http/http-port.ts'
import { changeOrigin } from './model/change-origin.ts'
import { modelKey } from './model/model-key.ts'
import { RateLimiter } from './scheduling/rate-limiter.ts'
import { ContentIndex } from './repository/content-index.ts'
import { ModelRepository } from './repository/model-repository.ts'
import { LocalStore } from './repository/local-store.ts'
import { RegistryReader } from './repository/registry-reader.ts'
import { withoutSecrets } from './repository/cloud/cloud-location.ts'
import { openCloudStore } from './repository/cloud/open-cloud-store.ts'
import { createBackendRegistry, type BackendEntry } from './backend-registry.ts'
import { createModelServices } from './engine-services.ts'
import { createHttpPort } from './http-front-ends.ts'
import { createMetricsService, type MetricsService } from './metrics-service.ts'
import type { GrpcFrontend } from './ports/grpc/grpc-port.ts'
import { openResponseCache } from './open-response-cache.ts'
import type { EngineSettings, ServerOptions, TraceOptions } from './options/server-options.ts'
import { AuditLog } from './telemetry/audit-log.ts'
import { CustomMetricRegistry } from './telemetry/custom-metrics.ts'
import { countGpus } from './telemetry/gpu-count.ts'
import { ResidencyLedger } from './telemetry/residency-ledger.ts'
import { ModelLedger } from './telemetry/model-ledger.ts'
import { createSpanProcessor, openTelemetrySettings } from './telemetry/otlp/open-telemetry.ts'
import type { SpanProcessor } from './telemetry/otlp/span-processor.ts'
import { Tracer } from './telemetry/tracer.ts'

export type ServerDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** What `/v2/logging` shows and changes. */
  readonly logControl?: LogControl
  /** `--access-log` */
  readonly accessLog?: AccessLog
}

/** What the start-up tables show. */
export type StartReport = {
  readonly models: readonly IndexEntry[]
  readonly backends: readonly BackendEntry[]
}

export type RunningServer = {
  readonly engine: Engine
  /** Null when `--allow-http=false`. */
  readonly httpAddress: { readonly address: string; readonly port: number } | null
  /** Null when `--allow-grpc=false`. */
  readonly grpcAddress: { readonly address: string; readonly port: number } | null
  /** Null when `--allow-metrics=false`. */
  readonly metricsAddress: { readonly address: string; readonly port: number } | null
  readonly report: StartReport
  /** After the file of `--audit-log` was renamed: from now on under its old name again. */
  reopenAuditLog(): void
  /**
   * Readiness goes false at once and nothing new is admitted; what is in flight may end within the budget. Then
   * everything is closed. True when nothing had to be given up.
   */
  drain(budgetMs: number): Promise<boolean>
}

/** What stands beside the Engine; without it nothing is traced or kept and nobody asks for metrics. */
type Observers = {
  readonly liveCheck?: LiveCheck
  readonly tracer?: Tracer
  readonly ledger?: ModelLedger
  readonly customMetrics?: CustomMetricRegistry
  readonly residencyLedger?: ResidencyLedger
  readonly audit?: AuditLog
}

type BuiltEngine = {
  readonly engine: Engine
  readonly repository: ModelRepository
  /** Null: no answers are kept. */
  readonly responseCache: ResponseCache | null
  readonly usedBackends: () => readonly BackendEntry[]
}

/** An Engine over the repositories and backends that the options name; `start` loads its models. */
export async function buildEngine(
  dependencies: ServerDependencies & Observers,
  options: EngineSettings,
): Promise<BuiltEngine> {
  const { log } = dependencies
  const services = createModelServices(() => engine, dependencies.customMetrics ?? new CustomMetricRegistry())
  const backends = createBackendRegistry({ ...dependencies, services }, options)
  const contents = new ContentIndex()
  const store = openCloudStore({ ...dependencies, environment: process.env, local: new LocalStore(contents) }, options)
  const roots = options.modelRepositories.map(withoutSecrets)
  const repository = new ModelRepository(
    { log, store },
    {
      roots,
      modelConfigName: options.modelConfigName,
      isAutoCompleteDisabled: options.isAutoCompleteDisabled,
      hasModelNamespacing: options.hasModelNamespacing,
    },
  )
  const responseCache = await openResponseCache({ ...dependencies, contents }, options.responseCache)
  const rateLimiter = options.rateLimit === null ? null : new RateLimiter(options.rateLimit.resources)
  const engine: Engine = new Engine(
    {
      ...dependencies,
      contents,
      responseCache,
      registryReader: new RegistryReader({ log, store }, roots),
      rateLimiter,
      repository,
      findBackend: backends.find,
      closeBackends: async () => {
        contents.close()
        await backends.close()
        await store.close()
        await responseCache?.close()
      },
    },
    { ...options, gpuCount: countGpus(process.env), isModelControlExplicit: options.modelControlMode === 'explicit' },
  )
  return { engine, repository, responseCache, usedBackends: backends.used }
}

/** The last spans may take so long to leave; a collector that is away must not hold up the exit for longer. */
const spanFlushMs = 3000

function createTracer({ clock, log }: ServerDependencies, options: TraceOptions, spans: SpanProcessor | null): Tracer {
  if (spans === null || options.openTelemetry === null) return new Tracer(log, options)
  return new Tracer(log, options, { clock, sink: spans, settings: openTelemetrySettings(options.openTelemetry) })
}

function createLiveCheck(
  { clock, log }: ServerDependencies,
  timeoutSecs: number,
  instances: () => Iterable<WatchedInstance>,
): LiveCheck | null {
  return timeoutSecs === 0 ? null : new LiveCheck({ clock, log, instances }, timeoutSecs)
}

/** `--allow-metrics=false`: only what the statistics tell is counted. */
const unwatched = { hasSummaries: false, hasFirstResponses: false, hasOwnFamilies: false }

/** Resolves when the models are loaded (or known to have failed) and the ports are open. */
export async function startServer(options: ServerOptions, dependencies: ServerDependencies): Promise<RunningServer> {
  const { openTelemetry } = options.trace
  const spans = openTelemetry === null ? null : createSpanProcessor(dependencies, openTelemetry)
  const tracer = createTracer(dependencies, options.trace, spans)
  const ledger = new ModelLedger(options.metrics ?? unwatched)
  const residencyLedger = new ResidencyLedger()
  const customMetrics = new CustomMetricRegistry()
  const audit = await AuditLog.open(dependencies, options.process.auditLogFile)
  const observers = { tracer, ledger, customMetrics, residencyLedger, audit }
  const liveCheck = createLiveCheck(dependencies, options.process.liveCheckTimeoutSecs, () => engine.instances())
  const { engine, repository, responseCache, usedBackends } = await buildEngine(
    { ...dependencies, ...observers, ...(liveCheck === null ? {} : { liveCheck }) },
    options.engine,
  )
  const sharedMemory = new SharedMemoryRegistry({ isAllowed: options.process.allowsClientSharedMemory })
  let http: HttpPort | null = null
  let grpc: GrpcFrontend | null = null
  let metrics: MetricsService | null = null
  let poller: RepositoryPoller | null = null
  try {
    // Its code is read while the models load, and not at all where nobody wants it.
    const grpcModule = options.grpc === null ? null : import('./ports/grpc/grpc-port.ts')
    await engine.start()
    liveCheck?.start()
    const report = { models: engine.index(), backends: usedBackends() }
    let httpAddress: RunningServer['httpAddress'] = null
    let grpcAddress: RunningServer['grpcAddress'] = null
    let metricsAddress: RunningServer['metricsAddress'] = null
    const isServing = !(options.process.exitOnError && engine.hasFailures)
    if (options.grpc !== null && grpcModule !== null && isServing) {
      grpc = (await grpcModule).createGrpcFrontend({ ...dependencies, engine, sharedMemory }, options.grpc)
      grpcAddress = await grpc.listen()
    }
    if (options.http !== null && isServing) {
      http = createHttpPort({ ...dependencies, engine, sharedMemory, customMetrics }, options.http)
    }
    if (options.metrics !== null && isServing) {
      const traffic = { http: http?.traffic ?? null, grpc: grpc?.traffic ?? null }
      const parts = {
        ...dependencies,
        engine,
        ledger,
        customMetrics,
        residencyLedger,
        responseCache,
        traffic,
        spans,
        audit,
      }
      metrics = createMetricsService(parts, options.metrics)
      metricsAddress = await metrics.listen()
    }
    // Last: who finds this port ready may ask the others at once.
    if (http !== null) httpAddress = await http.listen()
    if (options.engine.modelControlMode === 'poll' && options.engine.repositoryPollSecs > 0) {
      poller = new RepositoryPoller(
        {
          ...dependencies,
          poll: () => repository.poll(),
          load: (key) => engine.follow(key),
          unload: (key) => engine.unload(key, false, changeOrigin('poll')),
        },
        options.engine.repositoryPollSecs,
        report.models.map(({ namespace, name }) => modelKey(namespace, name)),
      )
    }
    return {
      engine,
      httpAddress,
      grpcAddress,
      metricsAddress,
      report,
      reopenAuditLog: () => audit.reopen(),
      drain: async (budgetMs) => {
        engine.beginExit()
        liveCheck?.close()
        poller?.close()
        const frontendDrained = Promise.all([http?.drain(), grpc?.drain()])
        const isInTime = await engine.close(budgetMs)
        await (isInTime ? frontendDrained : Promise.resolve())
        await http?.close()
        await grpc?.close()
        sharedMemory.close()
        await tracer.close()
        await spans?.close(spanFlushMs)
        await metrics?.close()
        await audit.close()
        return isInTime
      },
    }
  } catch (reason) {
    liveCheck?.close()
    await engine.close(0)
    await audit.close()
    await spans?.close(0)
    await http?.close()
    await grpc?.close()
    await metrics?.close()
    throw reason
  }
}

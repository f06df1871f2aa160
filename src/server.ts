// The composition root: builds the object graph by hand. The only file that names concrete backends and front ends.

import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import type { LogControl } from './base/log-control.ts'
import { Engine, type IndexEntry } from './engine/engine.ts'
import { RepositoryPoller } from './engine/repository-poller.ts'
import { SharedMemoryRegistry } from './engine/shared-memory/shared-memory-registry.ts'
import { ResponseCache } from './engine/response-cache.ts'
import { createHttpFrontend, type HttpFrontend } from './frontends/http/http-frontend.ts'
import { RateLimiter } from './scheduling/rate-limiter.ts'
import { LocalRepository } from './repository/local-repository.ts'
import { LocalStore } from './repository/local-store.ts'
import { createBackendRegistry, type BackendEntry } from './backend-registry.ts'
import { createModelServices } from './engine-services.ts'
import { createMetricsService, type MetricsService } from './metrics-service.ts'
import type { GrpcFrontend } from './frontends/grpc/grpc-frontend.ts'
import type { ServerOptions } from './server-options.ts'
import { CustomMetricRegistry } from './telemetry/custom-metrics.ts'
import { ModelLedger } from './telemetry/model-ledger.ts'
import { Tracer } from './telemetry/tracer.ts'

export type ServerDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** What `/v2/logging` shows and changes. */
  readonly logControl?: LogControl
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
  /**
   * Readiness goes false at once and nothing new is admitted; what is in flight may end within the budget. Then
   * everything is closed. True when nothing had to be given up.
   */
  drain(budgetMs: number): Promise<boolean>
}

/** What an Engine is built from: the server's options without ports, log and process. */
export type EngineSettings = Omit<
  ServerOptions,
  | 'http'
  | 'grpc'
  | 'log'
  | 'trace'
  | 'metrics'
  | 'allowsClientSharedMemory'
  | 'requestLimits'
  | 'exitOnError'
  | 'exitTimeoutSecs'
  | 'hasTritonDefaults'
>

/** What watches the Engine at work; without it nothing is traced and nobody asks for metrics. */
type Observers = {
  readonly tracer?: Tracer
  readonly ledger?: ModelLedger
  readonly customMetrics?: CustomMetricRegistry
}

/** An Engine over the repositories and backends that the options name; `start` loads its models. */
export function buildEngine(
  dependencies: ServerDependencies & Observers,
  options: EngineSettings,
): { engine: Engine; repository: LocalRepository; usedBackends: () => readonly BackendEntry[] } {
  const { log } = dependencies
  const services = createModelServices(() => engine, dependencies.customMetrics ?? new CustomMetricRegistry())
  const backends = createBackendRegistry({ ...dependencies, services }, options)
  const repository = new LocalRepository(
    { log, store: new LocalStore() },
    {
      roots: options.modelRepositories,
      modelConfigName: options.modelConfigName,
      isAutoCompleteDisabled: options.isAutoCompleteDisabled,
    },
  )
  const responseCache = options.responseCacheBytes > 0 ? new ResponseCache(options.responseCacheBytes) : null
  const rateLimiter = options.rateLimit === null ? null : new RateLimiter(options.rateLimit.resources)
  const engine: Engine = new Engine(
    {
      ...dependencies,
      responseCache,
      rateLimiter,
      repository,
      findBackend: backends.find,
      closeBackends: backends.close,
    },
    { ...options, gpuCount: 0, isModelControlExplicit: options.modelControlMode === 'explicit' },
  )
  return { engine, repository, usedBackends: backends.used }
}

/** Resolves when the models are loaded (or known to have failed) and the ports are open. */
export async function startServer(options: ServerOptions, dependencies: ServerDependencies): Promise<RunningServer> {
  const tracer = new Tracer(dependencies.log, options.trace)
  const ledger = new ModelLedger(options.metrics ?? undefined)
  const customMetrics = new CustomMetricRegistry()
  const { engine, repository, usedBackends } = buildEngine({ ...dependencies, tracer, ledger, customMetrics }, options)
  const sharedMemory = new SharedMemoryRegistry({ isAllowed: options.allowsClientSharedMemory })
  let http: HttpFrontend | null = null
  let grpc: GrpcFrontend | null = null
  let metrics: MetricsService | null = null
  let poller: RepositoryPoller | null = null
  try {
    // Its code is read while the models load, and not at all where nobody wants it.
    const grpcModule = options.grpc === null ? null : import('./frontends/grpc/grpc-frontend.ts')
    await engine.start()
    const report = { models: engine.index(), backends: usedBackends() }
    let httpAddress: RunningServer['httpAddress'] = null
    let grpcAddress: RunningServer['grpcAddress'] = null
    let metricsAddress: RunningServer['metricsAddress'] = null
    const isServing = !(options.exitOnError && engine.hasFailures)
    if (options.grpc !== null && grpcModule !== null && isServing) {
      grpc = (await grpcModule).createGrpcFrontend(
        { ...dependencies, engine, sharedMemory },
        { ...options.grpc, requestLimits: options.requestLimits },
      )
      grpcAddress = await grpc.listen()
    }
    if (options.http !== null && isServing) {
      http = createHttpFrontend(
        { ...dependencies, engine, sharedMemory, customMetrics },
        { ...options.http, requestLimits: options.requestLimits },
      )
      httpAddress = await http.listen()
    }
    if (options.metrics !== null && isServing) {
      metrics = createMetricsService({ ...dependencies, engine, ledger, customMetrics }, options.metrics)
      metricsAddress = await metrics.listen()
    }
    if (options.modelControlMode === 'poll' && options.repositoryPollSecs > 0) {
      poller = new RepositoryPoller(
        {
          ...dependencies,
          poll: () => repository.poll(),
          load: (name) => engine.load(name),
          unload: (name) => engine.unload(name),
        },
        options.repositoryPollSecs,
        report.models.map(({ name }) => name),
      )
    }
    return {
      engine,
      httpAddress,
      grpcAddress,
      metricsAddress,
      report,
      drain: async (budgetMs) => {
        engine.beginExit()
        poller?.close()
        const frontendDrained = Promise.all([http?.drain(), grpc?.drain()])
        const isInTime = await engine.close(budgetMs)
        await (isInTime ? frontendDrained : Promise.resolve())
        await http?.close()
        await grpc?.close()
        sharedMemory.close()
        await tracer.close()
        await metrics?.close()
        return isInTime
      },
    }
  } catch (reason) {
    await engine.close(0)
    await http?.close()
    await grpc?.close()
    await metrics?.close()
    throw reason
  }
}

// Metrics put together: what is counted, the page that shows it, the port that serves the page.

import type { JobSources } from './telemetry/job-families.ts'
import type { AccessService } from './access/access-service.ts'
import type { Admission } from './access/admission.ts'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { messageOf, ServerError } from './base/server-error.ts'
import type { ClientMemory } from './transport/client-memory.ts'
import type { ConnectionSlots } from './transport/connection-slots.ts'
import type { Engine } from './engine/engine.ts'
import { HttpPort } from './ports/http/http-port.ts'
import type { ResponseCache } from './model/response-cache.ts'
import { metricsRoutes, type MetricsParts } from './frontends/metrics/metrics-routes.ts'
import type { Route } from './ports/http/route.ts'
import type { MetricsOptions } from './options/server-options.ts'
import type { AuditLog } from './telemetry/audit-log.ts'
import type { CustomMetricRegistry } from './telemetry/custom-metrics.ts'
import { GpuMetrics } from './telemetry/gpu-metrics.ts'
import { HostMetrics } from './telemetry/host-metrics.ts'
import type { LoadFigures } from './telemetry/pressure-meter.ts'
import { MetricsPage } from './telemetry/metrics-page.ts'
import type { ModelLedger } from './telemetry/model-ledger.ts'
import { openMetricsText } from './telemetry/open-metrics-text.ts'
import { prometheusText } from './telemetry/prometheus-text.ts'
import type { LazyReleases } from './lazy-releases.ts'
import type { RolloutSources } from './telemetry/rollout-families.ts'
import type { ScaledFigures } from './telemetry/scaling-families.ts'
import type { ResidencyLedger } from './telemetry/residency-ledger.ts'
import type { SpanFigures, TrafficSource } from './telemetry/server-families.ts'

export type MetricsServiceDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** Without one everybody is admitted. */
  readonly admission?: Admission
  /** `--access-config`; null or left out: everybody may do everything. */
  readonly access?: AccessService | null
  readonly engine: Engine
  /** How loaded the server is; left out: nobody measures it. */
  readonly figures?: { figures(): LoadFigures | null }
  readonly clientMemory: ClientMemory
  readonly connectionSlots: ConnectionSlots
  readonly ledger: ModelLedger
  readonly customMetrics: CustomMetricRegistry
  readonly residencyLedger: ResidencyLedger
  /** Without them there are no jobs. */
  readonly jobFigures?: JobSources
  /** Null or left out: the server acts on no alerts. */
  readonly alerts?: { readonly counts: ReadonlyMap<string, number> } | null
  /** Models whose instances follow load. */
  readonly scaling?: { figures(): Iterable<ScaledFigures> }
  /** Without one there are no rollouts. */
  readonly rollouts?: Pick<LazyReleases, 'opened'>
  /** Null: `--cache-config` was not given. */
  readonly responseCache: ResponseCache | null
  readonly accessLog?: { readonly droppedCount: number }
  /** Null: no spans are made. */
  readonly spans: SpanFigures | null
  readonly audit: AuditLog
  /** The ports that are open; more may come. */
  readonly traffic: readonly TrafficSource[]
}

type MetricsService = {
  /** The page as Prometheus reads it. */
  text(): string
  /** The paths of the page, for other ports that show it too. */
  readonly routes: readonly Route[]
  listen(): Promise<{ address: string; port: number }>
  /** Twice is fine. */
  close(): Promise<void>
}

export function createMetricsService(
  dependencies: MetricsServiceDependencies,
  options: MetricsOptions,
): MetricsService {
  const { clock, log, engine, ledger, customMetrics } = dependencies
  const access = dependencies.access ?? null
  const host = options.hasHost ? new HostMetrics(clock, options.intervalMs) : null
  const gpu = options.hasGpu ? new GpuMetrics({ clock, log }) : null
  const page = new MetricsPage(
    {
      clock,
      ledger,
      host,
      cache: dependencies.responseCache,
      traffic: dependencies.traffic,
      clients: dependencies.clientMemory,
      pinned: dependencies.clientMemory.pinned,
      slots: dependencies.connectionSlots,
      refusals: engine.refusals,
      gpus: () => gpu?.gpus() ?? [],
      customFamilies: () => customMetrics.families(),
      residency: { ledger: dependencies.residencyLedger, models: () => engine.residences() },
      ...rolloutSources(dependencies),
      ...(access === null ? {} : { tenants: () => access.accounts }),
      ...(dependencies.jobFigures === undefined ? {} : { jobs: dependencies.jobFigures }),
      alerts: () => dependencies.alerts?.counts ?? new Map(),
      scaled: () => dependencies.scaling?.figures() ?? [],
      load: () => dependencies.figures?.figures() ?? null,
      isReady: () => engine.isReady,
      notReady: () => engine.notReadyReasons(),
      spans: dependencies.spans,
      accessLog: dependencies.accessLog ?? null,
      audit: dependencies.audit,
    },
    options,
  )
  const formats = [prometheusText, openMetricsText].map((text) => ({
    contentType: text.contentType,
    pieces: () => page.pieces(text),
  }))
  const { clientMemory, connectionSlots } = dependencies
  const admission = dependencies.admission ?? dependencies.access?.admission ?? null
  const port = createMetricsPort({ clock, log, formats, admission, clientMemory, connectionSlots }, options)
  return {
    text: () => [...page.pieces(prometheusText)].join(''),
    routes: metricsRoutes({ clock, log, formats }),
    listen: async () => {
      gpu?.start(options.intervalMs)
      if (host !== null) {
        log.from('metrics-service.ts').info('Collecting CPU metrics')
        await host.start()
      }
      return port.listen()
    },
    close: async () => {
      host?.close()
      gpu?.close()
      page.close()
      await port.close()
    },
  }
}

/** No flag changes these limits: few clients ask for metrics, with a short head and no body. */
const metricsLimits = {
  bodyLimitBytes: 64 * 1024,
  maxHeaderBytes: 16 * 1024,
  headersTimeoutMs: 10_000,
  bodyIdleTimeoutMs: 30_000,
  leastBodyRate: 240,
  writeIdleTimeoutMs: 30_000,
  keepAliveTimeoutMs: 75_000,
  maxConnections: 256,
} as const

export function createMetricsPort(
  parts: MetricsParts & {
    readonly admission?: Admission | null
    readonly clientMemory?: ClientMemory
    readonly connectionSlots?: ConnectionSlots
  },
  { address, port, allowedHosts = [] }: Pick<MetricsOptions, 'address' | 'port'> & Partial<MetricsOptions>,
): HttpPort {
  const cannotListen = (cause: Error): ServerError => {
    const text = `failed to listen for metrics at ${address}:${port}: ${messageOf(cause)}.`
    const advice = 'Use --metrics-port for another port, or --allow-metrics=false.'
    return new ServerError('UNAVAILABLE', `${text} ${advice}`, { cause })
  }
  return new HttpPort(
    { ...parts, cannotListen, admission: parts.admission ?? null },
    {
      ...metricsLimits,
      address,
      port,
      reusePort: false,
      tls: null,
      corsOrigins: [],
      allowedHosts,
      protocol: 'metrics',
      hasFlags: false,
    },
    metricsRoutes(parts),
  )
}

function rolloutSources({ rollouts }: MetricsServiceDependencies): { readonly rollouts?: RolloutSources } {
  if (rollouts === undefined) return {}
  return {
    rollouts: {
      rollouts: () => rollouts.opened?.control.rollouts() ?? [],
      results: () => rollouts.opened?.control.results() ?? new Map(),
      feedback: () => rollouts.opened?.desk.counts() ?? new Map(),
    },
  }
}

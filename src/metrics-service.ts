// Metrics put together: what is counted, the page that shows it, the port that serves the page.

import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import type { Engine } from './engine/engine.ts'
import { MetricsFrontend } from './frontends/metrics/metrics-frontend.ts'
import type { MetricsOptions } from './server-options.ts'
import type { CustomMetricRegistry } from './telemetry/custom-metrics.ts'
import { GpuMetrics } from './telemetry/gpu-metrics.ts'
import { HostMetrics } from './telemetry/host-metrics.ts'
import { MetricsPage } from './telemetry/metrics-page.ts'
import type { ModelLedger } from './telemetry/model-ledger.ts'

export type MetricsServiceDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly engine: Engine
  readonly ledger: ModelLedger
  readonly customMetrics: CustomMetricRegistry
}

export type MetricsService = {
  listen(): Promise<{ address: string; port: number }>
  /** Twice is fine. */
  close(): Promise<void>
}

export function createMetricsService(
  dependencies: MetricsServiceDependencies,
  options: MetricsOptions,
): MetricsService {
  const { clock, log, engine, ledger, customMetrics } = dependencies
  const host = options.hasHost ? new HostMetrics(clock, options.intervalMs) : null
  const gpu = options.hasGpu ? new GpuMetrics({ clock, log }) : null
  const gpus = (): ReturnType<GpuMetrics['gpus']> => gpu?.gpus() ?? []
  const customFamilies = (): ReturnType<CustomMetricRegistry['families']> => customMetrics.families()
  const page = new MetricsPage({ clock, ledger, host, gpus, customFamilies, isReady: () => engine.isReady }, options)
  const frontend = new MetricsFrontend({ clock, log, pieces: () => page.pieces() }, options)
  return {
    listen: async () => {
      gpu?.start(options.intervalMs)
      if (host !== null) {
        log.from('metrics-service.ts').info('Collecting CPU metrics')
        await host.start()
      }
      return frontend.listen()
    },
    close: async () => {
      host?.close()
      gpu?.close()
      page.close()
      await frontend.close()
    },
  }
}

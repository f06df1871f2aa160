// GET /v2/health/detail: the state of the server and its process.

import type { HealthReport, LoadUnderWay } from '../model/health.ts'

/** The facts of the process. */
type ProcessFacts = {
  readonly uptimeSecs: number
  /** How late the main thread was just now. */
  readonly eventLoopDelayMs: number
  readonly rssBytes: number
  readonly heapUsedBytes: number
  readonly externalBytes: number
}

const loadsJson = (loads: readonly LoadUnderWay[]): object[] =>
  loads.map(({ model, seconds, sinceMs }) => ({ name: model, since: new Date(sinceMs).toISOString(), seconds }))

/** The answer of `/v2/health/ready` while models load. */
export const encodeStarting = (error: string, loading: readonly LoadUnderWay[]): Buffer =>
  Buffer.from(JSON.stringify({ error, loading: loadsJson(loading) }))

export function encodeHealthDetail(health: HealthReport, server: ProcessFacts): Buffer {
  return Buffer.from(
    JSON.stringify({
      live: health.isLive,
      ready: health.isReady,
      state: health.state,
      strict_readiness: health.isStrict,
      reasons: health.reasons,
      uptime_seconds: server.uptimeSecs,
      event_loop_delay_ms: server.eventLoopDelayMs,
      memory: {
        rss_bytes: server.rssBytes,
        heap_used_bytes: server.heapUsedBytes,
        external_bytes: server.externalBytes,
      },
      loading: loadsJson(health.loading),
      models: health.models.map((model) => ({
        name: model.model,
        version: model.version,
        state: model.state,
        ready: model.isReady,
        reason: model.reason,
        in_flight: model.inFlightCount,
        queued: model.pendingCount,
        instances: model.instances.map((instance) => ({
          name: instance.name,
          ready: instance.isReady,
          hung: instance.isHung,
          restarts: instance.restartCount,
          last_error: instance.lastError,
        })),
      })),
    }),
  )
}

// Trace mode `opentelemetry`: where spans go, from what the command line says.

import type { Clock } from '../../base/clock.ts'
import { parseCollectorUrl } from '../../base/collector-url.ts'
import type { Log } from '../../base/log.ts'
import { createGrpcExporter } from './grpc-exporter.ts'
import { createHttpExporter } from './http-exporter.ts'
import { SpanProcessor, type SpanExporter } from './span-processor.ts'

export type OpenTelemetryOptions = {
  /** `http(s)://host:port/path` for OTLP over HTTP; `grpc(s)://host:port`, or port 4317 without a path, for gRPC. */
  readonly url: string
  /** In the order of the command line. */
  readonly resource: readonly (readonly [key: string, value: string])[]
  /** Sent with every export, as for a collector that asks who sends. */
  readonly headers: Readonly<Record<string, string>>
  readonly maxQueueSize: number
  readonly scheduleDelayMs: number
  readonly maxExportBatchSize: number
}

const defaultServiceName = 'triton-inference-server'

export function createSpanProcessor(
  dependencies: { readonly clock: Clock; readonly log: Log },
  options: OpenTelemetryOptions,
): SpanProcessor {
  // Of a key that is given twice the last value counts. The name of the service is always there.
  const resource = new Map([['service.name', defaultServiceName], ...options.resource])
  const exporter = createExporter(options)
  return new SpanProcessor({ ...dependencies, exporter }, { ...options, resource: [...resource] })
}

function createExporter({ url, headers }: OpenTelemetryOptions): SpanExporter {
  const target = parseCollectorUrl(url)
  return target.isGrpc ? createGrpcExporter(target.url, headers) : createHttpExporter(target.url, headers)
}

/** The settings as the trace extension shows them. */
export const openTelemetrySettings = (options: OpenTelemetryOptions): readonly (readonly [string, string])[] => [
  ['url', options.url],
  ...options.resource.map(([key, value]) => ['resource', `${key}=${value}`] as const),
  ['bsp_max_export_batch_size', String(options.maxExportBatchSize)],
  ['bsp_schedule_delay', String(options.scheduleDelayMs)],
  ['bsp_max_queue_size', String(options.maxQueueSize)],
]

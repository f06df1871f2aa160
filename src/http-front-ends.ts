// The HTTP port put together: the routes of every front end that speaks HTTP, and the port that serves them.

import type { AccessService } from './access/access-service.ts'
import type { Admission } from './access/admission.ts'
import { bothAdmissions } from './access/both-admissions.ts'
import { openAiRestrictions } from './access/openai-restrictions.ts'
import { sharedKeyAdmission } from './access/shared-key-admission.ts'
import type { AccessLog } from './base/access-log.ts'
import type { Clock } from './base/clock.ts'
import type { LogControl } from './base/log-control.ts'
import type { Log } from './base/log.ts'
import { messageOf, ServerError } from './base/server-error.ts'
import type { Engine } from './engine/engine.ts'
import { SharedMemoryRegistry } from './engine/shared-memory/shared-memory-registry.ts'
import { accessRoutes } from './frontends/access/access-routes.ts'
import type { CostOptions } from './frontends/access/cost-table.ts'
import type { UseHistories } from './frontends/access/use-source.ts'
import { consolePath, consoleRoutes } from './frontends/console/console-routes.ts'
import { feedRoutes, type FeedsOnDemand } from './frontends/feeds/feed-routes.ts'
import type { AlertDesk } from './alerts/alert-desk.ts'
import { alertRoutes } from './frontends/alerts/alert-routes.ts'
import type { JobEndpoints } from './frontends/jobs/job-endpoints.ts'
import { jobRoutes } from './frontends/jobs/job-routes.ts'
import type { OpenAiBatches } from './jobs/openai-batches.ts'
import { generateRoutes } from './frontends/generate/generate-routes.ts'
import { kserve1Routes, kserve2Routes } from './frontends/kserve1/kserve1-routes.ts'
import { LazyOpenAi, openAiListRoutes, openAiRoutes } from './frontends/openai/openai-routes.ts'
import type { RolloutSource } from './frontends/rollouts/open-rollout-endpoints.ts'
import { rolloutRoutes } from './frontends/rollouts/rollout-routes.ts'
import { InferEndpoint } from './frontends/v2-http/infer-endpoint.ts'
import { LazyUploads, uploadRoutes } from './frontends/upload/upload-routes.ts'
import { pathHint } from './frontends/v2-http/path-hints.ts'
import { v2Routes, type V2Parts } from './frontends/v2-http/v2-routes.ts'
import { bodyLimitBytes, validateHttpOptions, type HttpOptions } from './ports/http/http-options.ts'
import type { LoadMetricSource } from './frontends/generate/endpoint-load-metrics.ts'
import { EventReaders } from './ports/http/event-readers.ts'
import { HttpPort } from './ports/http/http-port.ts'
import type { ClientMemory } from './transport/client-memory.ts'
import type { ConnectionSlots } from './transport/connection-slots.ts'
import { JsonOffload } from './ports/http/json-offload.ts'
import type { Route } from './ports/http/route.ts'
import type { FaultSource } from './model/fault.ts'
import { portInUse } from './refuse-busy-ports.ts'
import type { TfservingFrontEnd } from './tfserving-front-end.ts'

export type HttpDependencies = {
  /** In place of the one that the options name. */
  readonly admission?: Admission
  /** `--access-config`; null or left out: everybody may do everything that the options do not restrict. */
  readonly access?: AccessService | null
  /** Null or left out: the server knows no price. */
  readonly cost?: CostOptions
  /** Null or left out: nobody can ask for use and cost of a time. */
  readonly uses?: UseHistories | null
  readonly engine: Engine
  readonly clientMemory?: ClientMemory
  readonly connectionSlots?: ConnectionSlots
  readonly log: Log
  readonly clock: Clock
  /** What `/v2/logging` shows and changes; without it the endpoint refuses. */
  readonly logControl?: LogControl
  /** The regions that clients registered, by whatever protocol; without it they may register none. */
  readonly sharedMemory?: SharedMemoryRegistry
  /** For the hint at the right port; left out: the server has no metrics port. */
  readonly metricsPort?: () => number | null
  /** Without one nothing is written about single requests. */
  readonly accessLog?: AccessLog
  /** Without one there are no rollouts. */
  readonly rollouts?: RolloutSource
  readonly faults?: FaultSource | null
  /** Without it TensorFlow Serving's protocol is not served. */
  readonly tfserving?: TfservingFrontEnd
  /** Null or left out: the server runs no jobs. */
  readonly jobs?: JobEndpoints | null
  /** Null or left out: the server acts on no alerts. */
  readonly alerts?: AlertDesk | null
  /** The batches of the OpenAI API are jobs. */
  readonly batches?: OpenAiBatches | null
  /** Without them nobody can watch the server. */
  readonly feeds?: FeedsOnDemand
  /** Metrics that models made; without them no answer tells of a model's load. */
  readonly customMetrics?: LoadMetricSource
}

/** Throws ServerError when an option makes no sense; opens no port before `listen`. */
export function createHttpPort(dependencies: HttpDependencies, options: HttpOptions): HttpPort {
  validateHttpOptions(options)
  const { admission, parts } = httpParts(dependencies, options, new JsonOffload(dependencies))
  const offload = closeAll(parts.offload, parts.openAi, parts.uploads)
  const { refusals, wording } = dependencies.engine
  const ports = { metricsPort: dependencies.metricsPort ?? (() => null) }
  const hints = wording.isTriton ? {} : { pathHint: (target: string) => pathHint(target, ports), decodesNames: true }
  const home = options.hasConsole ? { homePath: consolePath } : {}
  return new HttpPort(
    { ...dependencies, ...hints, refusals, admission, offload, cannotListen: (reason) => listenError(reason, options) },
    {
      ...options,
      bodyLimitBytes: bodyLimitBytes(options),
      protocol: 'http',
      hasFlags: true,
      closesMalformed: wording.isTriton,
      ...home,
    },
    httpRoutes(parts, options),
  )
}

type HttpParts = V2Parts & {
  readonly openAi: LazyOpenAi
  readonly uploads: LazyUploads
  readonly customMetrics?: LoadMetricSource
  readonly access?: AccessService | null
  readonly cost?: CostOptions
  readonly uses?: UseHistories | null
  readonly rollouts?: RolloutSource
  readonly tfserving?: TfservingFrontEnd
  readonly feeds?: FeedsOnDemand
  readonly jobs?: JobEndpoints | null
  readonly alerts?: AlertDesk | null
}

/** What the routes of every HTTP port are made of. */
export function httpParts(
  dependencies: HttpDependencies,
  options: HttpOptions,
  offload: JsonOffload,
): { readonly admission: Admission | null; readonly parts: HttpParts } {
  const restricted = bothAdmissions(
    sharedKeyAdmission('http', options.restrictedApis),
    openAiRestrictions(options.openAiRestrictedApis),
  )
  const admission = dependencies.admission ?? bothAdmissions(restricted, dependencies.access?.admission ?? null)
  const sharedMemory = dependencies.sharedMemory ?? new SharedMemoryRegistry({ isAllowed: false })
  const shared = { ...dependencies, batches: dependencies.batches ?? null, sharedMemory, offload }
  const lazy = { openAi: new LazyOpenAi(shared, options), uploads: new LazyUploads(shared, options) }
  return { admission, parts: { ...shared, ...lazy } }
}

/** What ends with a port. */
export const closeAll = (...parts: readonly { close(): void }[]): { close(): void } => ({
  close: () => {
    for (const part of parts) part.close()
  },
})

function listenError(cause: Error, { address, port }: HttpOptions): ServerError {
  if ((cause as NodeJS.ErrnoException).code === 'EADDRINUSE') {
    return portInUse({ kind: 'HTTP', address, port }, cause)
  }
  return new ServerError('INTERNAL', `cannot listen for HTTP on ${address}:${port}: ${messageOf(cause)}`, { cause })
}

/** Every path of the HTTP port. */
export const httpRoutes = (parts: HttpParts, options: HttpOptions): Route[] => [
  ...v2Routes(parts, options),
  ...generateRoutes(parts, options),
  ...uploadRoutes(parts.uploads),
  ...rolloutRoutes(parts.rollouts ?? null, {
    ...parts,
    infer: new InferEndpoint(parts, options).handle,
    readers: parts.feeds?.readers ?? new EventReaders(),
  }),
  ...jobRoutes(parts.jobs ?? null),
  ...alertRoutes(parts.alerts ?? null),
  ...accessRoutes(parts),
  ...(options.hasOpenAi ? openAiRoutes(parts.openAi) : []),
  ...kserve2Routes(parts.engine, options),
  ...v1Routes(parts, options),
  ...feedRoutes(parts.feeds ?? null),
  ...consoleRoutes(options),
]

/** Two protocols have the paths below `/v1/models/{model}`: TensorFlow Serving's, where it is allowed, else KServe's. */
function v1Routes(parts: HttpParts, options: HttpOptions): Route[] {
  const kserve = kserve1Routes(parts, options)
  const listed = options.hasOpenAi ? withOpenAi(kserve, parts.openAi) : kserve
  if (parts.tfserving === undefined) return listed
  const lists = listed.filter(({ path }) => path === '/v1/models' || path === '/')
  return [...lists, ...parts.tfserving.routes(parts, options)]
}

/** OpenAI has the paths of models too: its answers have KServe's members beside its own. */
function withOpenAi(kserve: readonly Route[], openAi: LazyOpenAi): Route[] {
  const both = openAiListRoutes(openAi, kserve.find(({ path }) => path === '/v1/models/{model}')?.handle ?? null)
  const paths = new Set(both.map(({ path }) => path))
  return [...kserve.filter(({ path }) => !paths.has(path)), ...both]
}

// An Engine with the repositories, backends and caches that its settings name.

import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import type { ClosingStack } from './base/closing-stack.ts'
import type { Gpus } from './cuda/gpus.ts'
import { openGpus } from './open-gpus.ts'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import type { CoresOf } from './config/host-policy.ts'
import { removeLeftFolders } from './base/own-folder.ts'
import { switchTelemetryOff } from './base/telemetry-off.ts'
import { createBackendRegistry, type BackendEntry } from './backend-registry.ts'
import { createModelServices } from './engine-services.ts'
import { LocalResponseCache } from './engine/cache/local-response-cache.ts'
import { Engine } from './engine/engine.ts'
import type { LiveCheck } from './engine/live-check.ts'
import type { ServedVersion } from './engine/serving/served-version.ts'
import type { ChatModels } from './model/chat-models.ts'
import type { ResponseCache } from './model/response-cache.ts'
import type { EngineSettings, ResponseCacheOptions } from './options/server-options.ts'
import { withoutSecrets } from './repository/cloud/cloud-location.ts'
import { openCloudStore } from './repository/cloud/open-cloud-store.ts'
import { ContentIndex } from './repository/content-index.ts'
import { LocalStore } from './repository/local-store.ts'
import { MappedFolders, mappedRoot } from './repository/mapped-folders.ts'
import { ModelRepository } from './repository/model-repository.ts'
import type { RepositoryStore } from './repository/repository-store.ts'
import { RegistryReader } from './repository/registry-reader.ts'
import { RateLimiter } from './scheduling/rate-limiter.ts'
import type { AuditLog } from './telemetry/audit-log.ts'
import { CustomMetricRegistry } from './telemetry/custom-metrics.ts'
import type { ModelLedger } from './telemetry/model-ledger.ts'
import type { ResidencyLedger } from './telemetry/residency-ledger.ts'
import type { Tracer } from './telemetry/tracer.ts'

/** The optional parts watch the Engine: an embedded Engine has none of them. */
type BuildDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly liveCheck?: LiveCheck
  readonly onServed?: (version: ServedVersion) => void
  readonly tracer?: Tracer
  readonly ledger?: ModelLedger
  readonly customMetrics?: CustomMetricRegistry
  readonly residencyLedger?: ResidencyLedger
  readonly audit?: AuditLog
  /** Null: there are none. Absent: the Engine looks for them. */
  readonly gpus?: Gpus | null
}

type BuiltEngine = {
  readonly engine: Engine
  readonly repository: ModelRepository
  /** Null: all models lie in repositories. */
  readonly mapped: MappedFolders | null
  readonly store: RepositoryStore
  readonly contents: ContentIndex
  /** Null: no answers are kept. */
  readonly responseCache: ResponseCache | null
  readonly usedBackends: () => readonly BackendEntry[]
}

/** An Engine over the repositories and backends that the options name; `start` loads its models. */
export async function buildEngine(
  dependencies: BuildDependencies,
  options: EngineSettings,
  closing: ClosingStack,
): Promise<BuiltEngine> {
  const { log, customMetrics = new CustomMetricRegistry() } = dependencies
  void removeLeftFolders(log.from('own-folder.ts'), tmpdir())
  switchTelemetryOff(process.env)
  // The Engine closes these after its models. While there is no Engine yet, a failure closes these.
  const resources = closing.place()
  const contents = resources.add(new ContentIndex(), (opened) => opened.close())
  const cacheParts = { ...dependencies, contents }
  const responseCache = resources.add(await openResponseCache(cacheParts, options.responseCache), (opened) =>
    opened?.close(),
  )
  const storeParts = { ...dependencies, environment: process.env, local: new LocalStore(contents) }
  const cloudStore = resources.add(openCloudStore(storeParts, options), (opened) => opened.close())
  const mapped = options.mapsFolders ? resources.add(new MappedFolders(cloudStore), (opened) => opened.close()) : null
  const store = mapped ?? cloudStore
  const services = createModelServices(() => engine, customMetrics, dependencies.log)
  const openChats = async (): Promise<ChatModels> => {
    const { TemplateChats } = await import('./frontends/openai/template-chats.ts')
    return new TemplateChats({ ...dependencies, engine: () => engine })
  }
  const gpus = dependencies.gpus === undefined ? await openGpus(options, dependencies.log) : dependencies.gpus
  const coresOf = await hostCores(options)
  const backends = resources.add(
    createBackendRegistry({ ...dependencies, services, openChats, gpus, coresOf }, options),
    (opened) => opened.close(),
  )
  const roots = [...options.modelRepositories.map(withoutSecrets), ...(mapped === null ? [] : [mappedRoot])]
  const repository = new ModelRepository(
    { log, store },
    {
      roots,
      modelConfigName: options.modelConfigName,
      isAutoCompleteDisabled: options.isAutoCompleteDisabled,
      hasModelNamespacing: options.hasModelNamespacing,
    },
  )
  const rateLimiter = options.rateLimit === null ? null : new RateLimiter(options.rateLimit.resources)
  const engine: Engine = new Engine(
    {
      ...dependencies,
      contents,
      responseCache,
      registryReader: new RegistryReader({ log, store }, roots),
      rateLimiter,
      coresOf,
      repository,
      findBackend: backends.find,
      closeBackends: () => resources.close(),
    },
    { ...options, gpuCount: gpus?.count ?? 0, isModelControlExplicit: options.modelControlMode === 'explicit' },
  )
  return { engine, repository, store, contents, mapped, responseCache, usedBackends: backends.used }
}

/** Undefined where `--host-policy` names none. */
async function hostCores({ hostPolicies }: EngineSettings): Promise<CoresOf | undefined> {
  if (hostPolicies.size === 0) return undefined
  const { resolveHostPolicies, coresIn } = await import('./resolve-host-policies.ts')
  return coresIn(resolveHostPolicies(hostPolicies))
}

/** Null where `--cache-config` asks for none. */
async function openResponseCache(
  dependencies: { clock: Clock; log: Log; contents: ContentIndex },
  options: ResponseCacheOptions | null,
): Promise<ResponseCache | null> {
  if (options === null) return null
  if (options.kind === 'local') return new LocalResponseCache(options.maxBytes)
  const { RedisResponseCache } = await import('./engine/cache/redis-response-cache.ts')
  return RedisResponseCache.open({ ...dependencies, runId: randomUUID() }, options)
}

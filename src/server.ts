// The composition root: builds the object graph by hand. The only file that names concrete backends and front ends.

import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { Engine, type IndexEntry } from './engine/engine.ts'
import { createHttpFrontend, type HttpFrontend } from './frontends/http/http-frontend.ts'
import { LocalRepository } from './repository/local-repository.ts'
import { LocalStore } from './repository/local-store.ts'
import { createBackendRegistry, type BackendEntry } from './backend-registry.ts'
import { createModelServices } from './engine-services.ts'
import type { ServerOptions } from './server-options.ts'

export type ServerDependencies = { readonly clock: Clock; readonly log: Log }

/** What the start-up tables show. */
export type StartReport = {
  readonly models: readonly IndexEntry[]
  readonly backends: readonly BackendEntry[]
}

export type RunningServer = {
  readonly engine: Engine
  /** Null when `--allow-http=false`. */
  readonly httpAddress: { readonly address: string; readonly port: number } | null
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
  'http' | 'log' | 'requestLimits' | 'exitOnError' | 'exitTimeoutSecs' | 'hasTritonDefaults'
>

/** An Engine over the repositories and backends that the options name; `start` loads its models. */
export function buildEngine(
  dependencies: ServerDependencies,
  options: EngineSettings,
): { engine: Engine; usedBackends: () => readonly BackendEntry[] } {
  const { clock, log } = dependencies
  const services = createModelServices(() => engine)
  const backends = createBackendRegistry({ ...dependencies, services }, options)
  const repository = new LocalRepository(
    { log, store: new LocalStore() },
    {
      roots: options.modelRepositories,
      modelConfigName: options.modelConfigName,
      isAutoCompleteDisabled: options.isAutoCompleteDisabled,
    },
  )
  const engine: Engine = new Engine(
    { clock, log, repository, findBackend: backends.find, closeBackends: backends.close },
    { ...options, gpuCount: 0, isModelControlExplicit: options.modelControlMode === 'explicit' },
  )
  return { engine, usedBackends: backends.used }
}

/** Resolves when the models are loaded (or known to have failed) and the ports are open. */
export async function startServer(options: ServerOptions, dependencies: ServerDependencies): Promise<RunningServer> {
  const { engine, usedBackends } = buildEngine(dependencies, options)
  let http: HttpFrontend | null = null
  try {
    await engine.start()
    const report = { models: engine.index(), backends: usedBackends() }
    let httpAddress: RunningServer['httpAddress'] = null
    if (options.http !== null && !(options.exitOnError && engine.failures.length > 0)) {
      http = createHttpFrontend({ ...dependencies, engine }, { ...options.http, requestLimits: options.requestLimits })
      httpAddress = await http.listen()
    }
    return {
      engine,
      httpAddress,
      report,
      drain: async (budgetMs) => {
        engine.beginExit()
        const frontendDrained = http?.drain() ?? Promise.resolve()
        const isInTime = await engine.close(budgetMs)
        await (isInTime ? frontendDrained : Promise.resolve())
        await http?.close()
        return isInTime
      },
    }
  } catch (reason) {
    await engine.close(0)
    await http?.close()
    throw reason
  }
}

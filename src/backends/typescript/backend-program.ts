import path from 'node:path'
import { packagePrefix } from './module-hooks.ts'
import type { Program } from './program.ts'
import type { ProgramSource } from './worker-protocol.ts'
import type { CustomBackendModule, InstanceContext } from './backend-api.ts'

/** A custom backend in one Worker. Initialises backend, model and instance, and finalizes them in reverse order. */
export function backendProgram(
  exports: Readonly<Record<string, unknown>>,
  source: Extract<ProgramSource, { kind: 'backend' }>,
): Program {
  const backend = findBackend(exports, source.path)
  let instance: InstanceContext | null = null
  return {
    describe: async (draft) => (await backend.modelAutoCompleteConfig?.(draft)) ?? null,
    initialize: async (args) => {
      const { log, modelRepository, modelDirectory, versionDirectory } = args
      const directory = source.path.startsWith(packagePrefix) ? process.cwd() : path.dirname(source.path)
      const backendContext = { name: source.name, directory, settings: source.settings, log }
      const backendState = await backend.initialize?.({ ...backendContext, state: undefined })
      const modelContext = {
        backend: { ...backendContext, state: backendState },
        name: args.modelName,
        version: args.modelVersion,
        config: args.modelConfig,
        log,
        modelRepository,
        modelDirectory,
        versionDirectory,
      }
      const modelState = await backend.modelInitialize?.({ ...modelContext, state: undefined })
      const instanceContext = {
        model: { ...modelContext, state: modelState },
        name: args.modelInstanceName,
        kind: args.modelInstanceKind,
        deviceId: args.modelInstanceDeviceId,
        log,
      }
      const state = await backend.instanceInitialize?.({ ...instanceContext, state: undefined })
      instance = { ...instanceContext, state }
    },
    execute: (requests) => instance !== null && backend.execute(instance, requests),
    isReady:
      typeof backend.instanceReady === 'function' ? () => instance !== null && backend.instanceReady?.(instance) : null,
    finalize: async () => {
      if (instance === null) return
      // All three are finalized, also after an error of an earlier one. The first error is reported.
      const outcomes = [
        await settle(() => backend.instanceFinalize?.(instance as InstanceContext)),
        await settle(() => backend.modelFinalize?.((instance as InstanceContext).model)),
        await settle(() => backend.finalize?.((instance as InstanceContext).model.backend)),
      ]
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
    },
  }
}

async function settle(step: () => unknown): Promise<PromiseSettledResult<unknown>> {
  const [outcome] = await Promise.allSettled([Promise.try(step)])
  return outcome
}

function findBackend(exports: Readonly<Record<string, unknown>>, file: string): CustomBackendModule {
  for (const candidate of [exports, exports['default']]) {
    if (typeof candidate !== 'object' || candidate === null) continue
    if ('execute' in candidate && typeof candidate.execute === 'function') return candidate as CustomBackendModule
  }
  const found = Object.keys(exports).join(', ')
  throw new TypeError(
    `backend '${file}' must export a function execute(instance, requests), by name or on its default export; ` +
      (found === '' ? 'it exports nothing' : `it exports ${found}`),
  )
}

import path from 'node:path'
import type { BackendContext, CustomBackendModule, InstanceContext, ModelContext } from './backend-api.ts'
import type { BackendRoom } from './backend-room.ts'
import type { ModelArgs } from './model.ts'
import { packagePrefix } from './module-hooks.ts'
import type { Program } from './program.ts'
import type { ProgramSource } from './worker-protocol.ts'

type BackendSource = Extract<ProgramSource, { kind: 'backend' }>

/** One instance of a custom backend, in a room that it may share with others. */
export function backendProgram(
  exports: Readonly<Record<string, unknown>>,
  source: BackendSource,
  room: BackendRoom,
): Program {
  const backend = findBackend(exports, source.path)
  const life = new InstanceLife(backend, source, room)
  let instance: InstanceContext | null = null
  return {
    describe: async (draft) => (await backend.modelAutoCompleteConfig?.(draft)) ?? null,
    initialize: async (args, load) => {
      instance = await life.begin(args, load)
    },
    execute: (requests) => instance !== null && backend.execute(instance, requests),
    isReady:
      typeof backend.instanceReady === 'function' ? () => instance !== null && backend.instanceReady?.(instance) : null,
    finalize: () => life.end(),
  }
}

/**
 * The first instance in a room initialises the backend, and the first of a model the model, for all others, as in Triton. They are
 * finalized in reverse order.
 */
class InstanceLife {
  readonly #backend: CustomBackendModule
  readonly #source: BackendSource
  readonly #room: BackendRoom
  /** What was initialised and is still to be finalized, the last first. */
  readonly #undo: (() => unknown)[] = []

  constructor(backend: CustomBackendModule, source: BackendSource, room: BackendRoom) {
    this.#backend = backend
    this.#source = source
    this.#room = room
  }

  async begin(args: ModelArgs, load: string): Promise<InstanceContext> {
    try {
      return await this.#beginInstance(args, load)
    } catch (reason) {
      // What this instance had entered may now have no user. The reason of the failure is told, whatever follows.
      await settle(() => this.end())
      throw reason
    }
  }

  /** All are finalized, also after an error of an earlier one. The first error is reported. */
  async end(): Promise<void> {
    const outcomes = []
    for (const step of this.#undo.splice(0)) outcomes.push(await settle(step))
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  }

  async #beginInstance(args: ModelArgs, load: string): Promise<InstanceContext> {
    const model = await this.#beginModel(args, load)
    const { modelInstanceName: name, modelInstanceKind: kind, modelInstanceDeviceId: deviceId, log } = args
    const context = { model, name, kind, deviceId, log }
    const instance = { ...context, state: await this.#backend.instanceInitialize?.({ ...context, state: undefined }) }
    this.#undo.unshift(() => {
      log.info(`TRITONBACKEND_ModelInstanceFinalize: delete instance state: ${name}`)
      return this.#backend.instanceFinalize?.(instance)
    })
    return instance
  }

  async #beginModel(args: ModelArgs, load: string): Promise<ModelContext> {
    const backend = await this.#beginBackend(args)
    const { modelName: name, modelVersion: version, modelConfig: config } = args
    const { modelRepository, modelDirectory, versionDirectory } = args
    const places = { modelRepository, modelDirectory, versionDirectory }
    const context = { backend, name, version, config, log: backend.log, ...places }
    const shared = this.#room.model(load)
    const state = await shared.enter(() => {
      backend.log.info(`TRITONBACKEND_ModelInitialize: ${name} (version ${version})`)
      return this.#backend.modelInitialize?.({ ...context, state: undefined })
    })
    const end = (): unknown => {
      this.#room.forget(load)
      backend.log.info(`TRITONBACKEND_ModelFinalize: delete model state: ${name} (version ${version})`)
      return this.#backend.modelFinalize?.({ ...context, state })
    }
    this.#undo.unshift(() => shared.leave(end))
    return { ...context, state }
  }

  async #beginBackend(args: ModelArgs): Promise<BackendContext> {
    const { name, path: file, settings } = this.#source
    const log = this.#room.log ?? args.log
    const directory = file.startsWith(packagePrefix) ? process.cwd() : path.dirname(file)
    const context = { name, directory, settings, log }
    const state = await this.#room.backend.enter(() => {
      log.info(`TRITONBACKEND_Initialize: ${name}`)
      return this.#backend.initialize?.({ ...context, state: undefined })
    })
    const end = (): unknown => {
      log.info(`TRITONBACKEND_Finalize: ${name}`)
      return this.#backend.finalize?.({ ...context, state })
    }
    this.#undo.unshift(() => this.#room.backend.leave(end))
    await this.#room.hold(end)
    return { ...context, state }
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

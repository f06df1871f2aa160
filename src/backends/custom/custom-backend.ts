import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { ServerError } from '../../base/server-error.ts'
import type { Backend, LoadedModel, ModelFiles, ModelVersionSource } from '../../model/backend.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { packagePrefix } from '../typescript/module-hooks.ts'
import { completeByScript, createScriptModel } from '../typescript/script-model.ts'
import { SharedThread } from '../typescript/shared-thread.ts'
import type { ScriptDependencies } from '../typescript/script-worker.ts'
import type { BackendSettings, ProgramSource } from '../typescript/worker-protocol.ts'

/** The file names of a backend, in the order of the search. */
export const backendFileNames = ['backend.ts', 'backend.mts', 'backend.mjs', 'backend.js']

/**
 * A backend that a user wrote in TypeScript. All its instances run in one thread and share the states of the backend and of
 * their model, as in Triton. With `worker=instance` each instance has a Worker of its own, and shares nothing.
 */
export class CustomBackend implements Backend {
  readonly name: string
  readonly #dependencies: ScriptDependencies
  readonly #program: ProgramSource
  readonly #shared: SharedThread | null

  constructor(dependencies: ScriptDependencies, name: string, file: string, settings: BackendSettings) {
    this.name = name
    const log = dependencies.log.from('custom-backend.ts')
    this.#shared = isShared(name, settings) ? new SharedThread({ clock: dependencies.clock, log }, name) : null
    const alone = { ...dependencies, log }
    this.#dependencies = this.#shared === null ? alone : { ...alone, openShared: this.#shared.open }
    this.#program = { kind: 'backend', path: file, name, settings }
  }

  complete(draft: ModelConfig, files: ModelFiles): Promise<ModelConfig> {
    return completeByScript(this.#dependencies, draft, files, this.#program)
  }

  load(source: ModelVersionSource): Promise<LoadedModel> {
    return Promise.try(() => createScriptModel(this.#dependencies, source, this.#program))
  }

  async close(): Promise<void> {
    await this.#shared?.close()
  }
}

function isShared(name: string, settings: BackendSettings): boolean {
  const worker = settings.get('worker') ?? 'shared'
  if (worker === 'shared' || worker === 'instance') return worker === 'shared'
  throw new ServerError(
    'INVALID_ARG',
    `--backend-config=${name},worker: expected 'shared' or 'instance', got '${worker}'`,
  )
}

export const createCustomBackend = (
  dependencies: ScriptDependencies,
  name: string,
  file: string,
  settings: BackendSettings = new Map(),
): Backend => new CustomBackend(dependencies, name, file, settings)

/**
 * Finds the backend of this name: `<directory>/<name>/backend.ts|mts|mjs|js`, or the npm package of
 * `--backend-config=<name>,package=<npm name>`. Null when there is none.
 */
export async function findCustomBackend(
  directory: string,
  name: string,
  settings: BackendSettings = new Map(),
): Promise<string | null> {
  const packageName = settings.get('package')
  if (packageName !== undefined) return packagePrefix + packageName
  // The name comes from config.pbtxt, so only a plain folder name is accepted.
  if (directory === '' || !/^[\w-][\w.-]*$/.test(name)) return null
  const files = await listFolder(path.join(directory, name))
  const file = backendFileNames.find((candidate) => files.includes(candidate))
  return file === undefined ? null : path.resolve(directory, name, file)
}

/** The names of the backends in a `--backend-directory`, sorted; none when there is no such folder. */
export async function findCustomBackends(directory: string): Promise<string[]> {
  const found: string[] = []
  for (const name of await listFolder(directory)) {
    if ((await findCustomBackend(directory, name)) !== null) found.push(name)
  }
  return found.toSorted()
}

async function listFolder(directory: string): Promise<string[]> {
  try {
    return await readdir(directory)
  } catch (reason) {
    if (reason instanceof Error && 'code' in reason && (reason.code === 'ENOENT' || reason.code === 'ENOTDIR'))
      return []
    throw reason
  }
}

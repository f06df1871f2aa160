import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { ServerError } from '../../base/server-error.ts'
import type { Backend, LoadedModel, ModelFiles, ModelVersionSource } from '../../model/backend.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { ModelServices } from '../../model/model-services.ts'
import { completeByScript, createScriptModel } from './script-model.ts'
import type { ScriptDependencies } from './script-worker.ts'

/** The file names of a model, in the order of the search, when `default_model_filename` is not set. */
export const modelFileNames = ['model.ts', 'model.mts', 'model.js', 'model.mjs']

/** Models written in TypeScript or JavaScript, each instance in a Worker of its own. */
export class TypeScriptBackend implements Backend {
  readonly name = 'typescript'
  readonly #dependencies: ScriptDependencies

  constructor(dependencies: ScriptDependencies & { readonly services?: Pick<ModelServices, 'metrics'> }) {
    const { log, services } = dependencies
    const metrics = services?.metrics ?? null
    this.#dependencies = { ...dependencies, log: log.from('typescript-backend.ts'), metrics }
  }

  async complete(draft: ModelConfig, files: ModelFiles): Promise<ModelConfig> {
    const file = await findModelFile(draft, files)
    return completeByScript(this.#dependencies, draft, files, { kind: 'model', path: file })
  }

  async load(source: ModelVersionSource): Promise<LoadedModel> {
    const file = await findModelFile(source.config, source.files)
    return createScriptModel(this.#dependencies, source, { kind: 'model', path: file })
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}

async function findModelFile(config: ModelConfig, files: ModelFiles): Promise<string> {
  const wanted = config.defaultModelFilename === '' ? modelFileNames : [config.defaultModelFilename]
  for (const name of wanted) {
    const file = path.resolve(files.versionDirectory, name)
    if (!file.startsWith(path.resolve(files.versionDirectory) + path.sep)) {
      throw new ServerError(
        'INVALID_ARG',
        `model '${config.name}': default_model_filename '${name}' must lie in the version folder`,
      )
    }
    if (await exists(file)) return file
  }
  const expected = path.join(files.versionDirectory, wanted[0] ?? '')
  throw new ServerError('UNAVAILABLE', `unable to find '${expected}' for model instance '${config.name}'`)
}

async function exists(file: string): Promise<boolean> {
  try {
    return (await readdir(path.dirname(file))).includes(path.basename(file))
  } catch (reason) {
    if (reason instanceof Error && 'code' in reason && (reason.code === 'ENOENT' || reason.code === 'ENOTDIR'))
      return false
    throw ServerError.from(reason)
  }
}

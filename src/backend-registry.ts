// The backends by their names. A backend is imported and made when the first model asks for it: a server that serves only
// ONNX models never reads the code of the other backends.

import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { interpreterOf } from './config/backend-interpreter.ts'
import type { CoresOf } from './config/host-policy.ts'
import type { Gpus } from './cuda/gpus.ts'
import { workerEnvironment } from './base/worker-environment.ts'
import type { ModelConfig } from './config/model-config.ts'
import type { Backend, ModelFiles } from './model/backend.ts'
import type { ChatModels } from './model/chat-models.ts'
import type { ModelServices } from './model/model-services.ts'
import type { EngineSettings } from './options/server-options.ts'

export type BackendEntry = { readonly name: string; readonly path: string; readonly config: string }

type SearchedModel = { readonly config: ModelConfig; readonly files: ModelFiles }

type BackendRegistry = {
  /**
   * Always the same Backend for the same name and library; null when there is no Backend of that name. `model` may bring a
   * library of its own.
   */
  readonly find: (name: string, model?: SearchedModel) => Promise<Backend | null>
  /** The backends that models have asked for, for the start-up table. */
  readonly used: () => readonly BackendEntry[]
  readonly close: () => Promise<void>
}

type BackendDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly services: ModelServices
  /** For models that send chats on to other models. */
  readonly openChats: () => Promise<ChatModels>
  /** Null: models of backends in this process run on the CPU. */
  readonly gpus: Gpus | null
  readonly coresOf?: CoresOf | undefined
  /** Of the processes that run models. */
  readonly environment: NodeJS.ProcessEnv
  /** Python models may do what they may in Triton, no more and no less. */
  readonly followsTriton: boolean
}
type BackendSettings = ReadonlyMap<string, string>
type BackendOptions = Pick<
  EngineSettings,
  | 'backendConfig'
  | 'backendDirectory'
  | 'allowsPickleModels'
  | 'pythonEnvironment'
  | 'wordsErrorsLikeTriton'
  | 'isAutoCompleteDisabled'
  | 'minComputeCapability'
  | 'languageMetricNames'
>
type MakeBackend = (
  dependencies: BackendDependencies,
  settings: BackendSettings,
  options: BackendOptions,
) => Promise<Backend>

/** python/backends/<name>/model.py serves these. The user's Python has the framework. */
const frameworks = ['lightgbm', 'openvino', 'pytorch', 'sklearn', 'tensorflow', 'torchserve', 'vllm', 'xgboost']

const makeFrameworkBackend =
  (name: string): MakeBackend =>
  async (dependencies, settings, { allowsPickleModels }) => {
    const { PythonBackend } = await import('./backends/python/python-backend.ts')
    const directory = fileURLToPath(new URL(`../python/backends/${name}`, import.meta.url))
    const environment = {
      GALATEA_BACKEND_CONFIG: JSON.stringify(Object.fromEntries(settings)),
      GALATEA_ALLOW_PICKLE_MODELS: allowsPickleModels ? '1' : '0',
    }
    return new PythonBackend(dependencies, settings, { name, directory, environment })
  }

const builtIn: Readonly<Record<string, MakeBackend>> = {
  identity: async (dependencies) => {
    const { IdentityBackend } = await import('./backends/identity/identity-backend.ts')
    return new IdentityBackend(dependencies)
  },
  openai: async (dependencies) => {
    const { OpenAiBackend } = await import('./backends/openai/openai-backend.ts')
    return new OpenAiBackend(dependencies)
  },
  router: async (dependencies) => {
    const { RouterBackend } = await import('./backends/router/router-backend.ts')
    return new RouterBackend({ ...dependencies, chats: await dependencies.openChats() })
  },
  llamacpp: async (dependencies, settings, { languageMetricNames }) => {
    const { LlamaCppBackend } = await import('./backends/llamacpp/llamacpp-backend.ts')
    return new LlamaCppBackend({ ...dependencies, metricNames: languageMetricNames }, settings)
  },
  onnxruntime: async (dependencies, settings, { backendConfig }) => {
    const { OnnxBackend } = await import('./backends/onnx/onnx-backend.ts')
    const interpreter = interpreterOf(backendConfig, 'python')
    return new OnnxBackend({ ...dependencies, interpreter }, settings)
  },
  python: async (dependencies, settings) => {
    const { PythonBackend } = await import('./backends/python/python-backend.ts')
    return new PythonBackend(dependencies, settings)
  },
  ...Object.fromEntries(frameworks.map((name) => [name, makeFrameworkBackend(name)])),
  typescript: async (dependencies) => {
    const { TypeScriptBackend } = await import('./backends/typescript/typescript-backend.ts')
    return new TypeScriptBackend(dependencies)
  },
}

/** As in Triton's table: what the flags say, with the defaults, by name. */
function shownConfig(options: BackendOptions, settings: BackendSettings): string {
  const all = new Map([
    ['auto-complete-config', String(!options.isAutoCompleteDisabled)],
    ['backend-directory', options.backendDirectory],
    ['default-max-batch-size', '4'],
    ['min-compute-capability', options.minComputeCapability.toFixed(6)],
    ...settings,
  ])
  return JSON.stringify({ cmdline: Object.fromEntries([...all].sort(([a], [b]) => (a < b ? -1 : 1))) })
}

export function createBackendRegistry(
  parts: Omit<BackendDependencies, 'environment' | 'followsTriton'>,
  options: BackendOptions,
): BackendRegistry {
  const dependencies = {
    ...parts,
    environment: workerEnvironment(options.pythonEnvironment),
    followsTriton: options.wordsErrorsLikeTriton,
  }
  const made = new Map<string, Promise<Backend | null>>()
  const entries: BackendEntry[] = []

  const make = async (name: string, library: string | null): Promise<Backend | null> => {
    const { backendConfig, backendDirectory } = options
    const settings = new Map([...(backendConfig.get('') ?? []), ...(backendConfig.get(name) ?? [])])
    const found = library === null ? await locate(name, backendDirectory, settings) : nativeBackend(name, library)
    if (found === null) return null
    entries.push({ name, path: found.path, config: shownConfig(options, settings) })
    return found.make(dependencies, settings, options)
  }

  return {
    find: async (name, model) => {
      const library = await nativeLibrary(name, options, model ?? null)
      const key = library === null ? name : `${name}\n${library}`
      let backend = made.get(key)
      if (backend === undefined) made.set(key, (backend = make(name, library)))
      return backend
    },
    used: () => entries,
    close: async () => {
      for (const backend of await Promise.allSettled(made.values())) {
        if (backend.status === 'fulfilled') await backend.value?.close()
      }
      made.clear()
    },
  }
}

/** Whether a server with these options has a backend of that name. Makes no backend. */
export function createBackendFinder(
  options: Pick<BackendOptions, 'backendConfig' | 'backendDirectory'>,
): (name: string, model: SearchedModel) => Promise<boolean> {
  const { backendConfig, backendDirectory } = options
  return async (name, model) => {
    const settings = new Map([...(backendConfig.get('') ?? []), ...(backendConfig.get(name) ?? [])])
    if ((await nativeLibrary(name, options, model)) !== null) return true
    return (await locate(name, backendDirectory, settings)) !== null
  }
}

/** These are Galatea's own, whatever libraries there are: their libraries need more of a server than a host is. */
const neverNative: ReadonlySet<string> = new Set(['python', 'typescript', 'ensemble'])

/**
 * The `libtriton_<name>.so` that serves the model: one in its own folders, or in the folder of the backend. Null: there is none, or
 * `--backend-config=<name>,engine=built-in` prefers what Galatea has built in.
 */
async function nativeLibrary(
  name: string,
  { backendConfig, backendDirectory }: Pick<BackendOptions, 'backendConfig' | 'backendDirectory'>,
  model: SearchedModel | null,
): Promise<string | null> {
  if (neverNative.has(name) || backendConfig.get(name)?.get('engine') === 'built-in') return null
  if (process.platform !== 'linux') return null
  const { findLibrary } = await import('./backends/native/find-library.ts')
  return findLibrary(name, backendDirectory, model)
}

const nativeBackend = (name: string, library: string): Located => ({
  path: library,
  make: async (dependencies, settings, options) => {
    const { NativeBackend } = await import('./backends/native/native-backend.ts')
    const { backendDirectory } = options
    const config = shownConfig(options, settings)
    return new NativeBackend(dependencies, settings, { name, library, config, backendDirectory })
  },
})

type Located = { readonly path: string; readonly make: MakeBackend }

/** Looks for a built-in backend, then for one in TypeScript, then for `<directory>/<name>/model.py` in Python. */
async function locate(name: string, directory: string, settings: BackendSettings): Promise<Located | null> {
  const makeBuiltIn = Object.hasOwn(builtIn, name) ? builtIn[name] : undefined
  if (makeBuiltIn !== undefined) return { path: 'built in', make: makeBuiltIn }
  if (directory === '' && !settings.has('package')) return null
  const { createCustomBackend, findCustomBackend } = await import('./backends/custom/custom-backend.ts')
  const file = await findCustomBackend(directory, name, settings)
  if (file !== null) {
    return { path: file, make: async (dependencies) => createCustomBackend(dependencies, name, file, settings) }
  }
  // The name comes from config.pbtxt. It must be a plain folder name, so that it leads to no other place.
  const folder = path.resolve(directory, name)
  if (!/^[\w-][\w.-]*$/.test(name) || !existsSync(path.join(folder, 'model.py'))) return null
  const { PythonBackend } = await import('./backends/python/python-backend.ts')
  return {
    path: path.join(folder, 'model.py'),
    make: async (dependencies) => new PythonBackend(dependencies, settings, { name, directory: folder }),
  }
}

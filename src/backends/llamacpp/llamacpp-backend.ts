import { rm } from 'node:fs/promises'
import path from 'node:path'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { newOwnFolder } from '../../base/own-folder.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import { factsOfGguf } from '../../llm/facts-of-gguf.ts'
import { readGgufFile } from '../../llm/gguf-file.ts'
import type { LanguageFacts } from '../../llm/language-facts.ts'
import type {
  Backend,
  Instance,
  InstanceSpec,
  LoadedModel,
  ModelFiles,
  ModelVersionSource,
} from '../../model/backend.ts'
import type { ModelServices } from '../../model/model-services.ts'
import { LanguageMetrics, type LanguageMetricNames } from '../language-metrics.ts'
import { SupervisedInstance, type WorkerEvents } from '../supervised-instance.ts'
import { completeLanguageConfig } from '../complete-language-config.ts'
import type { EngineSettings } from './engine-protocol.ts'
import { findLlamaLibrary, hasCudaLibrary } from './find-llama-library.ts'
import { idleGpuSettings, llamaSettings } from './llama-settings.ts'
import { LlamaWorker } from './llama-worker.ts'

type LlamaDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly environment: NodeJS.ProcessEnv
  readonly services: Pick<ModelServices, 'metrics'>
  readonly metricNames: LanguageMetricNames
}

/** GGUF models on llama.cpp, each instance in a process of its own. */
export class LlamaCppBackend implements Backend {
  readonly name = 'llamacpp'
  readonly #dependencies: LlamaDependencies
  readonly #libraryPath: string

  constructor(dependencies: LlamaDependencies, settings: ReadonlyMap<string, string>) {
    this.#dependencies = { ...dependencies, log: dependencies.log.from('llamacpp-backend.ts') }
    this.#libraryPath = settings.get('library-path') ?? ''
  }

  complete(draft: ModelConfig): Promise<ModelConfig> {
    return Promise.resolve(completeLanguageConfig(draft))
  }

  usesGpus(): Promise<boolean> {
    return Promise.resolve(hasCudaLibrary(this.#libraryPath))
  }

  async load(source: ModelVersionSource): Promise<LoadedModel> {
    const { config, files } = source
    const file = modelFile(config, files)
    const header = factsOfGguf(await readGgufFile(file))
    const facts: LanguageFacts = { ...header, kind: readParameter(config, 'language_task') ?? header.kind }
    const settings = llamaSettings(config, facts, files, { kind: 'KIND_CPU', deviceId: 0 })
    for (const text of idleGpuSettings(config)) this.#dependencies.log.warning(text, { model: source.name })
    const createInstance = (spec: InstanceSpec): Promise<Instance> => {
      const library = findLlamaLibrary(this.#libraryPath, spec.kind === 'KIND_GPU')
      const settings = llamaSettings(config, facts, files, spec)
      const { services, metricNames } = this.#dependencies
      const launch = (events: WorkerEvents): Promise<LlamaWorker> => {
        const labels = { model: source.name, version: source.version, instance: spec.name }
        const metrics = new LanguageMetrics(services.metrics, metricNames, labels)
        return withRewrittenPath(settings, (rewrittenPath) => {
          const task = { library, modelPath: file, rewrittenPath, settings }
          const place = { task, modelName: source.name, instanceName: spec.name }
          return LlamaWorker.launch({ ...this.#dependencies, metrics }, place, events)
        })
      }
      return SupervisedInstance.create(this.#dependencies, {
        name: spec.name,
        modelName: source.name,
        onReadinessChange: spec.onReadinessChange,
        cores: spec.cores,
        maxExecutionMs: 0,
        isShared: true,
        launch,
        tritonDeathText: (reason) => `model '${source.name}', instance '${spec.name}' failed: ${reason}`,
      })
    }
    return {
      languageFacts: { ...facts, contextLength: settings.contextLength },
      createInstance,
      close: () => Promise.resolve(),
    }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}

/** The file is there only until the weights are in memory, or the process that writes it has ended. */
async function withRewrittenPath<Result>(
  { weights }: EngineSettings,
  use: (rewrittenPath: string | null) => Promise<Result>,
): Promise<Result> {
  if (weights === 'file') return use(null)
  const folder = await newOwnFolder('weights')
  try {
    return await use(path.join(folder, 'model.gguf'))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function modelFile(config: ModelConfig, files: ModelFiles): string {
  const name = config.defaultModelFilename === '' ? 'model.gguf' : config.defaultModelFilename
  const file = path.resolve(files.versionDirectory, name)
  if (file.startsWith(path.resolve(files.versionDirectory) + path.sep)) return file
  throw new ServerError(
    'INVALID_ARG',
    `model '${config.name}': default_model_filename '${name}' must lie in the version folder`,
  )
}

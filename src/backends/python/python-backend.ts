// Models written in Python: one process per Instance.

import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { workerEnvironment } from '../../base/worker-environment.ts'
import type { Backend, LoadedModel, ModelFiles, ModelVersionSource } from '../../model/backend.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { ModelServices } from '../../model/model-services.ts'
import { applyCompletedConfig, type CompletedJson } from '../worker-process/completed-config.ts'
import { PythonEnvironments } from './python-environment.ts'
import { PythonModel, type WorkerPlan } from './python-model.ts'
import { parsePythonSettings, type PythonSettings } from './python-settings.ts'
import { pythonWords } from './python-words.ts'
import { sharedMemorySupport } from '../worker-process/shared-memory.ts'
import { WorkerProcess } from '../worker-process/worker-process.ts'
import { WorkerLink } from '../worker-process/worker-launch.ts'

export type PythonBackendDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly services: ModelServices
  /** Of every process; absent: what a worker needs of the server's own. */
  readonly environment?: NodeJS.ProcessEnv
  /** True: outputs that the configuration does not name are left out, and what Triton refuses is refused. */
  readonly followsTriton?: boolean
}

/** A process that completed a configuration waits this long for the load of its model, then it ends. */
const standbyNs = 10e9

/** A backend that is a folder with a model.py, which serves every model that names the backend. */
export type SharedProgram = {
  readonly name: string
  readonly directory: string
  /** Variables for its processes, in addition to those of their Python. */
  readonly environment?: NodeJS.ProcessEnv
}

type Standby = { readonly link: WorkerLink; readonly cancelExpiry: Cancel }

const workerProgram = fileURLToPath(new URL('../../../python/worker.py', import.meta.url))

export class PythonBackend implements Backend {
  readonly name: string
  readonly #dependencies: PythonBackendDependencies
  readonly #settings: PythonSettings
  readonly #environments: PythonEnvironments
  /** The folder whose model.py serves every model of this backend; '' when each model brings its own. */
  readonly #sharedDirectory: string
  readonly #extraEnvironment: NodeJS.ProcessEnv
  /** Processes that have imported a model to complete its configuration and may go on to be its first instance. */
  readonly #standby = new Map<string, Standby>()
  /** The class names from the last completion of a model version, by its version folder. */
  readonly #classNames = new Map<string, ReadonlyMap<string, readonly string[]>>()

  constructor(
    dependencies: PythonBackendDependencies,
    settings: ReadonlyMap<string, string>,
    shared: SharedProgram = { name: 'python', directory: '' },
  ) {
    this.name = shared.name
    this.#extraEnvironment = shared.environment ?? {}
    this.#dependencies = dependencies
    this.#settings = parsePythonSettings(settings, dependencies.followsTriton)
    this.#sharedDirectory = shared.directory
    const { log, environment = workerEnvironment([]) } = dependencies
    this.#environments = new PythonEnvironments(log, this.#settings, environment)
    const { libc, whyNot } = sharedMemorySupport()
    if (libc === null && this.#settings.memory !== null) {
      dependencies.log.warning('no shared memory for python models, tensors travel through a socket', {
        reason: whyNot,
      })
    }
  }

  async complete(draft: ModelConfig, files: ModelFiles): Promise<ModelConfig> {
    const plan = await this.#plan(draft, files)
    const link = this.#launch(plan, draft.name)
    try {
      const completed = await link.completeConfig({
        ...plan.location,
        modelName: draft.name,
        config: this.#dependencies.services.encodeConfig(draft),
      })
      this.#learn(plan, link)
      const config = completed === null ? draft : applyCompletedConfig(draft, completed as CompletedJson)
      const classNames = Object.entries((completed as CompletedJson | null)?.class_names ?? {})
      if (classNames.length > 0) this.#classNames.set(files.versionDirectory, new Map(classNames))
      else this.#classNames.delete(files.versionDirectory)
      this.#park(plan.key, link)
      return config
    } catch (reason) {
      link.kill()
      throw reason
    }
  }

  classNames(_config: ModelConfig, files: ModelFiles): ReadonlyMap<string, readonly string[]> {
    return this.#classNames.get(files.versionDirectory) ?? new Map()
  }

  async load(source: ModelVersionSource): Promise<LoadedModel> {
    const plan = await this.#plan(source.config, source.files)
    const model = new PythonModel(this.#dependencies, this.#settings, source, plan, {
      launch: () => this.#unpark(plan.key) ?? this.#launch(plan, source.name),
      learn: (link) => this.#learn(plan, link),
    })
    return model
  }

  async close(): Promise<void> {
    const waiting = [...this.#standby.values()]
    this.#standby.clear()
    for (const { link, cancelExpiry } of waiting) {
      cancelExpiry()
      link.kill()
      await link.gone()
    }
  }

  #launch(plan: WorkerPlan, modelName: string): WorkerLink {
    const { executable, environment } = plan.environment
    const command = {
      executable,
      // A crash in native code then leaves the Python stack in the log.
      arguments: ['-X', 'faulthandler', workerProgram],
      environment: { ...environment, ...this.#extraEnvironment },
      directory: process.cwd(),
    }
    const { clock, log } = this.#dependencies
    return new WorkerLink(log, {
      executable,
      open: (regions, events) => new WorkerProcess(clock, command, regions, events),
      memory: this.#settings.memory,
      modelName,
      words: pythonWords,
    })
  }

  #learn(plan: WorkerPlan, link: WorkerLink): void {
    if (link.greeting !== null) this.#environments.learn(plan.environment, link.greeting.executable)
  }

  #park(key: string, link: WorkerLink): void {
    this.#unpark(key)?.kill()
    const cancelExpiry = this.#dependencies.clock.after(standbyNs, () => this.#unpark(key)?.kill())
    this.#standby.set(key, { link, cancelExpiry })
  }

  #unpark(key: string): WorkerLink | null {
    const standby = this.#standby.get(key)
    if (standby === undefined) return null
    this.#standby.delete(key)
    standby.cancelExpiry()
    return standby.link.isGone ? null : standby.link
  }

  async #plan(config: ModelConfig, files: ModelFiles): Promise<WorkerPlan> {
    const file = config.defaultModelFilename === '' ? 'model.py' : config.defaultModelFilename
    const isShared = this.#sharedDirectory !== ''
    const sharedFile = config.runtime.endsWith('.py') ? config.runtime : 'model.py'
    const program = isShared ? path.join(this.#sharedDirectory, sharedFile) : path.join(files.versionDirectory, file)
    if (!existsSync(program)) {
      throw new ServerError('INTERNAL', `Python model file not found in '${program}'`)
    }
    if (!isShared && !file.endsWith('.py')) {
      throw new ServerError('INTERNAL', `Model name must end with '.py'. Model name is "${file}".`)
    }
    const archive = isShared ? path.join(this.#sharedDirectory, `pb_exec_env_${sharedFile}.tar.gz`) : ''
    const environment = await this.#environments.find(config, files, existsSync(archive) ? archive : '')
    const folder = path.dirname(program)
    const stem = path.basename(program, '.py')
    // The file may lie in a folder of the version, which then is part of the module's name.
    const inVersion = path.relative(files.versionDirectory, folder).split(path.sep).filter(Boolean)
    return {
      key: `${program}\n${files.versionDirectory}\n${config.name}`,
      environment,
      location: {
        module: isShared ? stem : [files.version, ...inVersion, stem].join('.'),
        paths: isShared
          ? [this.#sharedDirectory]
          : [...new Set([folder, files.versionDirectory, files.modelDirectory])],
        modelDir: files.versionDirectory,
      },
    }
  }
}

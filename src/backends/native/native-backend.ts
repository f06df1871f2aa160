// Backends in C++ as they were made for Triton: libtriton_<name>.so. Each model has a host of its own, a process with a thread for each
// instance.

import path from 'node:path'
import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { Backend, InstanceSpec, LoadedModel, ModelFiles, ModelVersionSource } from '../../model/backend.ts'
import type { ModelServices } from '../../model/model-services.ts'
import { applyCompletedConfig, type CompletedJson } from '../worker-process/completed-config.ts'
import { WorkerLink } from '../worker-process/worker-launch.ts'
import { chooseEngine, type HostEngine } from './choose-engine.ts'
import { HostProcess } from './host-process.ts'
import { HostServices } from './host-services.ts'
import { innerConfig } from './inner-config.ts'
import { NativeModel } from './native-model.ts'
import { nativeWords } from './native-words.ts'
import { parseNativeSettings, type NativeSettings } from './native-settings.ts'

export type NativeBackendDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly services: ModelServices
  readonly environment: NodeJS.ProcessEnv
}

type NativeLibrary = {
  /** As the models name the backend. */
  readonly name: string
  readonly library: string
  /** What Triton tells a backend about its command line, as JSON. */
  readonly config: string
  readonly backendDirectory: string
}

/** A host that completed a configuration waits this long for the load of its model, then it ends. */
const standbyNs = 10e9

type Standby = { readonly link: WorkerLink; readonly host: HostProcess; readonly cancelExpiry: Cancel }

export class NativeBackend implements Backend {
  readonly name: string
  readonly #dependencies: NativeBackendDependencies
  readonly #settings: NativeSettings
  readonly #library: NativeLibrary
  readonly #standby = new Map<string, Standby>()
  /** The hosts that models share, by the device that they are for; '' for all devices. */
  readonly #shared = new Map<string, Promise<HostProcess>>()

  constructor(dependencies: NativeBackendDependencies, settings: ReadonlyMap<string, string>, library: NativeLibrary) {
    this.name = library.name
    this.#dependencies = { ...dependencies, log: dependencies.log.from('native-backend.ts') }
    this.#library = library
    this.#settings = parseNativeSettings(library.name, settings)
  }

  async complete(draft: ModelConfig, files: ModelFiles): Promise<ModelConfig> {
    const engine = await this.#engine()
    // It is not known yet which device the model will run on.
    const isFirstHost = this.#settings.host !== 'device'
    const host = isFirstHost ? await this.#openHost(engine, '') : await this.#startHost(engine)
    const link = this.#join(host, draft.name)
    try {
      const facts = {
        isDraft: true,
        inputs: [],
        outputs: [],
        decoupled: draft.modelTransactionPolicy?.decoupled ?? false,
      }
      const completed = (await link.completeConfig(this.#body(engine, draft, files, facts))) as {
        config: CompletedJson | null
      }
      if (isFirstHost) this.#park(files.versionDirectory, link, host)
      else link.dismiss()
      return completed.config === null ? draft : applyCompletedConfig(draft, completed.config)
    } catch (reason) {
      link.dismiss()
      throw reason
    }
  }

  async load(source: ModelVersionSource): Promise<LoadedModel> {
    const { config, files, signature } = source
    const facts = {
      isDraft: false,
      inputs: signature.inputs.map((input) => input.name),
      outputs: signature.outputs.map((output) => output.name),
      decoupled: signature.isDecoupled,
      iterative: config.sequenceBatching?.iterativeSequence ?? false,
      ...stateNames(config),
    }
    const engine = await this.#engine()
    const body = this.#body(engine, config, files, facts)
    /** The instances of a version that start at the same time join one host. */
    let opening: Promise<HostProcess> | null = null
    return new NativeModel(this.#dependencies, this.#settings, source, body, {
      launch: async (spec) => {
        const waiting = this.#unpark(files.versionDirectory)
        if (waiting !== null) {
          opening = Promise.resolve(waiting.host)
          return waiting.link
        }
        if (this.#settings.host === 'device') {
          return this.#join(await this.#openHost(engine, deviceOf(spec)), source.name)
        }
        opening = usableHost(opening, () => this.#openHost(engine, ''))
        return this.#join(await opening, source.name)
      },
    })
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

  #openHost(engine: HostEngine, device: string): Promise<HostProcess> {
    if (this.#settings.host === 'model') return this.#startHost(engine)
    const host = usableHost(this.#shared.get(device) ?? null, () => this.#startHost(engine))
    this.#shared.set(device, host)
    return host
  }

  /** Read anew for every model: a library may have been replaced, and a server library may have come. */
  #engine(): Promise<HostEngine> {
    const { log, environment } = this.#dependencies
    return chooseEngine(log, this.#settings, this.#library, environment)
  }

  async #startHost({ program, folders, tritonServer }: HostEngine): Promise<HostProcess> {
    const { clock, log, services, environment } = this.#dependencies
    if (tritonServer !== null)
      log.info("backend runs in Triton's own server", { backend: this.name, library: tritonServer })
    // Triton starts with the folder of a backend in its search path, so that the libraries beside the backend are found.
    const searched = [...folders, environment['LD_LIBRARY_PATH'], path.dirname(this.#library.library)]
    const host = new HostProcess(clock, new HostServices(log, services), program, {
      ...environment,
      LD_LIBRARY_PATH: searched.filter(Boolean).join(':'),
    })
    return host
  }

  #join(host: HostProcess, modelName: string): WorkerLink {
    return new WorkerLink(this.#dependencies.log, {
      executable: 'galatea-native-host',
      open: (regions, events) => host.openChannel(regions, events),
      memory: this.#settings.memory,
      modelName,
      words: nativeWords,
    })
  }

  #body(
    { tritonServer }: HostEngine,
    config: ModelConfig,
    files: ModelFiles,
    facts: { readonly isDraft: boolean },
  ): Record<string, unknown> {
    const { name, library, config: backendConfig } = this.#library
    const { services, log } = this.#dependencies
    const given = tritonServer === null ? config : innerConfig(config, files.version, facts.isDraft)
    return {
      backend: {
        name,
        library,
        directory: path.dirname(library),
        config: tritonServer === null ? backendConfig : this.#serverConfig(tritonServer),
      },
      model: {
        ...facts,
        key: files.versionDirectory,
        name: config.name,
        version: files.version,
        directory: files.modelDirectory,
        config: services.encodeConfig(given),
      },
      gpuMemory: this.#settings.gpuMemory,
      isVerbose: log.isVerbose(),
    }
  }

  /** What Triton's server in a host needs besides the settings of the backend. */
  #serverConfig(serverLibrary: string): string {
    const { config, backendDirectory } = this.#library
    const settings = JSON.parse(config) as Record<string, unknown>
    return JSON.stringify({ ...settings, serverLibrary, backendDirectory, models: this.#settings.models })
  }

  #park(key: string, link: WorkerLink, host: HostProcess): void {
    this.#unpark(key)?.link.dismiss()
    const cancelExpiry = this.#dependencies.clock.after(standbyNs, () => this.#unpark(key)?.link.dismiss())
    this.#standby.set(key, { link, host, cancelExpiry })
  }

  #unpark(key: string): Standby | null {
    const standby = this.#standby.get(key)
    if (standby === undefined) return null
    this.#standby.delete(key)
    standby.cancelExpiry()
    return standby.link.isGone ? null : standby
  }
}

/** The outputs that carry implicit state. Those that clients do not know are hidden from the backend's view of a request. */
function stateNames({ sequenceBatching, output }: ModelConfig): { states: string[]; hiddenStates: string[] } {
  const states = (sequenceBatching?.state ?? []).map(({ outputName }) => outputName)
  const listed = new Set(output.map(({ name }) => name))
  return { states, hiddenStates: states.filter((name) => !listed.has(name)) }
}

const deviceOf = ({ kind, deviceId }: InstanceSpec): string => (kind === 'KIND_GPU' ? `GPU ${deviceId}` : 'CPU')

/** `current` if it is there and takes instances, else a new one. Those who ask at the same time get the same one. */
const usableHost = (current: Promise<HostProcess> | null, open: () => Promise<HostProcess>): Promise<HostProcess> =>
  current === null ? open() : current.then((host) => (host.takesChannels ? host : open()), open)

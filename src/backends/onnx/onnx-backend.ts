// The `onnxruntime` backend: finds the model file, creates a session, completes and checks the configuration.

import { stat } from 'node:fs/promises'
import path from 'node:path'
import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Gpus } from '../../cuda/gpus.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Backend, LoadedModel, ModelFiles, ModelVersionSource } from '../../model/backend.ts'
import type { CoresOf } from '../../config/host-policy.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { readOnnxFile } from '../../onnx-file/onnx-file.ts'
import { workFollowsValues } from '../../onnx-file/value-driven-work.ts'
import { completeConfig, isComplete } from './auto-complete.ts'
import { defaultMaxBatchSizeIn } from './backend-settings.ts'
import { defaultInlineLimitUs, PlaceByTime } from './execution-place.ts'
import { describeLoadError } from './load-error.ts'
import { OnnxModel } from './onnx-model.ts'
import type { OnnxBinding, OnnxSession } from './onnx-session.ts'
import { openBinding } from './open-binding.ts'
import {
  gpuSession,
  parseOnnxSettings,
  type OnnxSettings,
  type Place,
  type SessionSettings,
} from './session-settings.ts'
import { cpuProviders } from './execution-providers.ts'
import { validateSignature } from './validate-signature.ts'

/** A session that was created to complete a configuration is kept for this time, for the load that follows. */
const keepSessionNs = 30e9

type KeptSession = { readonly key: string; readonly session: OnnxSession; readonly cancel: Cancel }

type OnnxDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** Absent or null: models run on the CPU. */
  readonly gpus?: Gpus | null
  /** Of the Python that may have ONNX Runtime for GPUs. */
  readonly interpreter?: string
  readonly environment?: NodeJS.ProcessEnv
  /** Absent: models run on all cores. */
  readonly coresOf?: CoresOf | undefined
}

export class OnnxBackend implements Backend {
  readonly name = 'onnxruntime'
  readonly #clock: Clock
  readonly #log: Log
  readonly #settings: ReadonlyMap<string, string>
  readonly #dependencies: OnnxDependencies
  #binding: Promise<OnnxBinding> | null = null
  /** Sessions by model file. `complete` puts them here and `load` takes them, so that no model is read twice. */
  readonly #kept = new Map<string, KeptSession>()
  /** The log says why models are not on the GPU. */
  #hasTold = false
  /** The last session that is being created on a GPU. */
  #lastOnGpu: Promise<unknown> = Promise.resolve()

  /** `settings` are Triton's `--backend-config` entries of this backend and the global ones. */
  constructor(dependencies: OnnxDependencies, settings: ReadonlyMap<string, string> = new Map()) {
    this.#dependencies = dependencies
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('onnx-backend.ts')
    this.#settings = settings
  }

  async complete(draft: ModelConfig, files: ModelFiles): Promise<ModelConfig> {
    if (isComplete(draft)) return draft
    const file = await findModelFile(draft, files)
    const deviceId = await this.#firstDevice(draft)
    const settings = onCores(this.#parse(draft, files), this.#firstCores(draft, deviceId))
    const session = await this.#createSession(file, settings, draft, deviceId)
    await this.#forget(file)
    const cancel = this.#clock.after(keepSessionNs, () => void this.#forget(file))
    this.#kept.set(file, { key: keyOf(settings, draft, deviceId), session, cancel })
    return completeConfig(draft, session, defaultMaxBatchSizeIn(this.#settings))
  }

  async load(source: ModelVersionSource): Promise<LoadedModel> {
    const { config, files, name } = source
    const file = await findModelFile(config, files)
    const deviceId = await this.#firstDevice(config)
    const cores = this.#firstCores(config, deviceId)
    const settings = onCores(this.#parse(config, files), cores)
    for (const warning of settings.warnings) this.#log.warning(warning, { model: name })
    const open = (device: number | null, own: readonly number[]): Promise<OnnxSession> =>
      this.#createSession(file, onCores(settings, own), config, device)
    const session = (await this.#takeKept(file, keyOf(settings, config, deviceId))) ?? (await open(deviceId, cores))
    try {
      validateSignature(config, session)
      const place = new PlaceByTime(defaultInlineLimitUs, await fixedPlace(file, config, settings, session))
      const sessions = { first: { deviceId, cores, session }, open }
      return new OnnxModel({ clock: this.#clock }, source, sessions, {
        place,
        maxExecutionMs: settings.maxExecutionMs,
        hasGraphs: settings.gpu.hasGraphs,
      })
    } catch (reason) {
      await session.close()
      throw reason
    }
  }

  async usesGpus(): Promise<boolean> {
    if ((this.#dependencies.gpus?.count ?? 0) === 0) return false
    const obstacle = await (await this.#open()).gpuObstacle('cuda')
    if (obstacle !== null && !this.#hasTold) {
      this.#hasTold = true
      this.#log.info(`ONNX models that name no kind run on the CPU, although there is a GPU: ${obstacle}`)
    }
    return obstacle === null
  }

  /** The device of the first instance group; null: the CPU. A group that names no kind is on a GPU where that is possible. */
  async #firstDevice(config: ModelConfig): Promise<number | null> {
    const [group] = config.instanceGroup
    const kind = group?.kind ?? 'KIND_AUTO'
    if ((this.#dependencies.gpus?.count ?? 0) === 0) return null
    if (kind === 'KIND_GPU') return group?.gpus[0] ?? 0
    return kind === 'KIND_AUTO' && (await this.usesGpus()) ? (group?.gpus[0] ?? 0) : null
  }

  /** Of the first instance group on the CPU. Sessions on a GPU are for all cores: the threads of their Instances are bound. */
  #firstCores({ instanceGroup: [group] }: ModelConfig, deviceId: number | null): readonly number[] {
    if (deviceId !== null) return []
    return this.#dependencies.coresOf?.({ kind: 'KIND_CPU', hostPolicy: group?.hostPolicy ?? '' }, 0) ?? []
  }

  async close(): Promise<void> {
    for (const file of this.#kept.keys()) await this.#forget(file)
    const binding = this.#binding
    this.#binding = null
    // One that could not be opened has told each load, and there is nothing to close.
    await (await binding?.catch(() => null))?.close()
  }

  #parse(config: ModelConfig, files: ModelFiles): OnnxSettings {
    return parseOnnxSettings(config, { resolveLibrary: (file) => path.resolve(files.modelDirectory, file) })
  }

  #open(): Promise<OnnxBinding> {
    this.#binding ??= openBinding({ ...this.#dependencies, log: this.#log }, this.#settings)
    return this.#binding
  }

  async #createSession(
    file: string,
    settings: OnnxSettings,
    config: ModelConfig,
    deviceId: number | null,
  ): Promise<OnnxSession> {
    const binding = await this.#open()
    try {
      if (deviceId === null) return await binding.createSession(file, await this.#onCpu(binding, settings, config))
      await this.#refuseLost(deviceId)
      const session = gpuSession(settings, config, deviceId)
      for (const { name } of session.providers) {
        const obstacle = await binding.gpuObstacle(name === 'tensorrt' ? 'tensorrt' : 'cuda')
        if (obstacle !== null) throw new ServerError('INVALID_ARG', noGpuText(config, obstacle))
      }
      const place = { ...settings.gpu, deviceId }
      return await this.#measured(config, deviceId, () => binding.createSession(file, session, place))
    } catch (reason) {
      throw describeLoadError(reason, file, await readOnnxFile(file).catch(() => null))
    }
  }

  async #refuseLost(deviceId: number): Promise<void> {
    const fault = this.#dependencies.gpus?.faults.of(deviceId) ?? null
    if (fault === null) return
    const { lostGpuText } = await import('../../cuda/gpu-faults.ts')
    throw new ServerError('UNAVAILABLE', lostGpuText(deviceId, fault))
  }

  /** One at a time: what becomes less while a session is created is what the session takes. */
  #measured({ name }: ModelConfig, deviceId: number, create: () => Promise<OnnxSession>): Promise<OnnxSession> {
    const { gpus } = this.#dependencies
    const free = async (): Promise<number> => (await gpus?.memory(deviceId))?.freeBytes ?? 0
    const opened = this.#lastOnGpu.then(async () => {
      const before = await free()
      const session = await create()
      session.deviceBytes = Math.max(0, before - (await free()))
      this.#log.info(`the weights of a session take ${session.deviceBytes} bytes of GPU ${deviceId}`, { model: name })
      return session
    })
    this.#lastOnGpu = opened.catch(() => undefined)
    return opened
  }

  async #onCpu(binding: OnnxBinding, { session }: OnnxSettings, config: ModelConfig): Promise<SessionSettings> {
    if ((config.optimization?.executionAccelerators?.cpuExecutionAccelerator ?? []).length === 0) return session
    const { providers, absent } = cpuProviders(config, await binding.providers())
    for (const name of absent) {
      const text = `cpu_execution_accelerator '${name}' is not in this build of ONNX Runtime; the model runs on its plain CPU provider`
      this.#log.warning(text, { model: config.name })
    }
    return { ...session, providers }
  }

  async #takeKept(file: string, key: string): Promise<OnnxSession | null> {
    const kept = this.#kept.get(file)
    if (kept === undefined) return null
    if (kept.key !== key) {
      await this.#forget(file)
      return null
    }
    this.#kept.delete(file)
    kept.cancel()
    return kept.session
  }

  async #forget(file: string): Promise<void> {
    const kept = this.#kept.get(file)
    this.#kept.delete(file)
    kept?.cancel()
    await kept?.session.close()
  }
}

const onCores = (settings: OnnxSettings, cores: readonly number[]): OnnxSettings =>
  cores.length === 0 && settings.session.cores.length === 0
    ? settings
    : { ...settings, session: { ...settings.session, cores } }

const keyOf = (settings: OnnxSettings, config: ModelConfig, deviceId: number | null): string =>
  JSON.stringify(
    deviceId === null ? settings.session : [deviceId, settings.gpu, gpuSession(settings, config, deviceId)],
  )

/** The first half is Triton's. */
const noGpuText = ({ name, instanceGroup: [group] }: ModelConfig, obstacle: string): string =>
  `instance group ${group?.name === '' || group === undefined ? `${name}_0` : group.name} of model ${name} has kind KIND_GPU ` +
  `but server does not support GPUs: ${obstacle}. Or use KIND_CPU`

/**
 * Null: the measured time decides. When the time of a model depends on the values of its inputs and not on their size,
 * past runs say nothing, so the model must not run on the main thread.
 */
async function fixedPlace(
  file: string,
  config: ModelConfig,
  settings: OnnxSettings,
  session: OnnxSession,
): Promise<Place | null> {
  if (!session.canRunInline) return 'offloaded'
  if (settings.execution !== null) return settings.execution
  const header = await readOnnxFile(file).catch(() => null)
  if (header === null) return 'offloaded'
  // An input with an initializer is a constant unless the configuration lets requests bring it.
  const given = [...header.inputs, ...config.input]
  return workFollowsValues(
    header.nodes,
    given.map(({ name }) => name),
  )
    ? 'offloaded'
    : null
}

/** Triton's rule: the file, or a folder of that name with `model.onnx` in it. */
export async function findModelFile(config: ModelConfig, files: ModelFiles): Promise<string> {
  const fileName = config.defaultModelFilename === '' ? 'model.onnx' : config.defaultModelFilename
  let file = path.join(files.versionDirectory, fileName)
  if (!file.startsWith(path.join(files.versionDirectory, path.sep))) {
    const text = `default_model_filename '${fileName}' of model '${config.name}' must name a file inside the version folder`
    throw new ServerError('INVALID_ARG', text)
  }
  const found = await stat(file).catch(() => null)
  if (found?.isDirectory() === true) {
    file = path.join(file, 'model.onnx')
    if ((await stat(file).catch(() => null))?.isFile() === true) return file
  } else if (found !== null) return file
  throw new ServerError('UNAVAILABLE', `unable to find '${file}' for model instance '${config.name}'`)
}

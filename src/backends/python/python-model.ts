// One version of a Python model: starts and supervises the workers of its instances.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Instance, InstanceSpec, LoadedModel, ModelVersionSource } from '../../model/backend.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import type { ModelServices } from '../../model/model-services.ts'
import { overdueStart, pinWorker, SupervisedInstance, type WorkerEvents } from '../supervised-instance.ts'
import type { PythonEnvironment } from './python-environment.ts'
import { inputsFd, outputsFd } from '../worker-process/worker-process.ts'
import type { PythonSettings } from './python-settings.ts'
import { ProcessWorker } from '../worker-process/process-worker.ts'
import type { SharedMemoryLimits } from '../worker-process/tensor-regions.ts'
import type { WorkerLink } from '../worker-process/worker-launch.ts'

export type WorkerPlan = {
  /** Equal for the same program, model and version. */
  readonly key: string
  readonly environment: PythonEnvironment
  readonly location: { readonly module: string; readonly paths: readonly string[]; readonly modelDir: string }
}

type WorkerSupply = {
  /** A process that waits to be initialised. */
  launch(): WorkerLink
  learn(link: WorkerLink): void
}

const kindNames = { KIND_CPU: 'CPU', KIND_GPU: 'GPU', KIND_MODEL: 'MODEL' } as const

export class PythonModel implements LoadedModel {
  readonly #dependencies: { readonly clock: Clock; readonly log: Log; readonly services: ModelServices }
  readonly #settings: PythonSettings
  readonly #source: ModelVersionSource
  readonly #plan: WorkerPlan
  readonly #supply: WorkerSupply
  /** Workers that are being initialised, which may take minutes. `close` ends them. */
  readonly #starting = new Set<WorkerLink>()
  readonly #maxExecutionMs: number
  readonly #maxMemoryBytes: number
  #isClosed = false

  constructor(
    dependencies: { readonly clock: Clock; readonly log: Log; readonly services: ModelServices },
    settings: PythonSettings,
    source: ModelVersionSource,
    plan: WorkerPlan,
    supply: WorkerSupply,
  ) {
    this.#dependencies = dependencies
    this.#settings = settings
    this.#source = source
    this.#plan = plan
    this.#supply = supply
    this.#maxExecutionMs = readParameter(source.config, 'max_execution_ms') ?? 0
    this.#maxMemoryBytes = readParameter(source.config, 'max_memory_bytes') ?? 0
  }

  createInstance(spec: InstanceSpec): Promise<Instance> {
    return SupervisedInstance.create(this.#dependencies, {
      name: spec.name,
      modelName: this.#source.name,
      launch: (events) => this.#launch(spec, events),
      onReadinessChange: spec.onReadinessChange,
      cores: spec.cores,
      deviceId: spec.kind === 'KIND_GPU' ? spec.deviceId : undefined,
      hasHostInputs: wantsHostInputs(this.#source.config),
      maxExecutionMs: this.#maxExecutionMs,
      tritonDeathText: (reason) =>
        reason.startsWith(overdueStart)
          ? `Failed to process the request(s) for model '${spec.name}', message: ${reason}`
          : unhealthy(spec.name),
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const starting = [...this.#starting]
    for (const link of starting) link.kill()
    await Promise.all(starting.map((link) => link.gone()))
  }

  async #launch(spec: InstanceSpec, events: WorkerEvents): Promise<ProcessWorker> {
    if (this.#isClosed) throw new ServerError('UNAVAILABLE', `model '${this.#source.name}' is being unloaded`)
    const link = this.#supply.launch()
    const { name, config, signature } = this.#source
    const stopGraceMs = this.#settings.stubTimeoutSeconds * 1000
    const settings = {
      modelName: name,
      instanceName: spec.name,
      signature,
      stopGraceMs,
      isAlone: isOnlyInstance(config),
      opensDevices: spec.kind === 'KIND_GPU',
    }
    // The worker is made before initialize, which may already call the server: metrics, readiness of other models.
    const worker = new ProcessWorker(this.#dependencies, settings, link, events)
    this.#starting.add(link)
    try {
      // Before the model is imported: its libraries start a thread for each core that they find.
      await pinWorker(link.pid, spec.cores)
      await link.initialize(
        this.#initializeBody(spec, link.regions?.limits ?? null),
        this.#settings.followsTriton ? (reason) => this.#endedWhileStarting(spec.name, reason) : null,
      )
      this.#supply.learn(link)
      return worker
    } catch (reason) {
      link.kill()
      throw reason
    } finally {
      this.#starting.delete(link)
    }
  }

  /** Triton's words do not say how the process ended, so the log does. */
  #endedWhileStarting(instance: string, reason: string): string {
    this.#dependencies.log.error('worker ended while starting', { model: this.#source.name, instance, reason })
    return unhealthy(instance)
  }

  #initializeBody(spec: InstanceSpec, memory: SharedMemoryLimits | null): unknown {
    const { name, version, config, signature, files } = this.#source
    return {
      ...this.#plan.location,
      modelName: name,
      args: {
        model_config: this.#dependencies.services.encodeConfig(config),
        model_instance_kind: kindNames[spec.kind],
        model_instance_name: spec.name,
        model_instance_device_id: String(spec.deviceId),
        model_repository: files.modelDirectory,
        model_version: version,
        model_name: name,
      },
      decoupled: signature.isDecoupled,
      inputs: signature.inputs.map((input) => input.name),
      outputs: signature.outputs.map((output) => output.name),
      followsTriton: this.#settings.followsTriton,
      maxMemoryBytes: this.#maxMemoryBytes,
      sharedMemory: memory === null ? null : { inputsFd, outputsFd, ...memory },
    }
  }
}

/** What Triton says of an instance whose process has ended. */
const unhealthy = (instance: string): string => `Stub process '${instance}' is not healthy.`

/** The PyTorch backend reads tensors on its GPU, and a Python model says whether it does. */
const wantsHostInputs = (config: ModelConfig): boolean =>
  config.backend !== 'pytorch' && readParameter(config, 'FORCE_CPU_ONLY_INPUT_TENSORS') !== 'no'

const isOnlyInstance = ({ instanceGroup }: ModelConfig): boolean =>
  instanceGroup.reduce((sum, { count, gpus }) => sum + count * Math.max(1, gpus.length), 0) === 1

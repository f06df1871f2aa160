// One version of a model of a native backend: starts and supervises its instances, which share a host.

import { ServerError } from '../../base/server-error.ts'
import { hostPolicyName } from '../../config/host-policy.ts'
import { readParameter } from '../../config/model-parameters.ts'
import type { Clock } from '../../base/clock.ts'
import type { ModelConfig, ModelInstanceGroup } from '../../config/model-config.ts'
import type { Log } from '../../base/log.ts'
import type { Instance, InstanceSpec, LoadedModel, ModelVersionSource } from '../../model/backend.ts'
import type { ModelServices } from '../../model/model-services.ts'
import { overdueStart, SupervisedInstance, type WorkerEvents } from '../supervised-instance.ts'
import { ProcessWorker } from '../worker-process/process-worker.ts'
import type { WorkerLink } from '../worker-process/worker-launch.ts'
import type { NativeSettings } from './native-settings.ts'

type NativeModelDependencies = { readonly clock: Clock; readonly log: Log; readonly services: ModelServices }
type LinkSupply = { launch(spec: InstanceSpec): Promise<WorkerLink> }

/** Triton's numbers of the kinds of instance groups. */
const kindNumbers = { KIND_CPU: 1, KIND_GPU: 2, KIND_MODEL: 3 } as const

export class NativeModel implements LoadedModel {
  readonly #dependencies: NativeModelDependencies
  readonly #settings: NativeSettings
  readonly #source: ModelVersionSource
  readonly #body: Record<string, unknown>
  readonly #supply: LinkSupply
  readonly #starting = new Set<WorkerLink>()
  readonly #maxExecutionMs: number
  readonly #maxMemoryBytes: number
  #isClosed = false

  constructor(
    dependencies: NativeModelDependencies,
    settings: NativeSettings,
    source: ModelVersionSource,
    body: Record<string, unknown>,
    supply: LinkSupply,
  ) {
    this.#dependencies = dependencies
    this.#settings = settings
    this.#source = source
    this.#body = body
    this.#supply = supply
    this.#maxExecutionMs = readParameter(source.config, 'max_execution_ms') ?? 0
    this.#maxMemoryBytes = readParameter(source.config, 'max_memory_bytes') ?? 0
  }

  /** With other models. */
  get #isHostShared(): boolean {
    return this.#settings.host !== 'model'
  }

  createInstance(spec: InstanceSpec): Promise<Instance> {
    return SupervisedInstance.create(this.#dependencies, {
      name: spec.name,
      modelName: this.#source.name,
      launch: (events) => this.#launch(spec, events),
      onReadinessChange: spec.onReadinessChange,
      // A host that several models share cannot be on the cores of one of them.
      cores: this.#isHostShared ? [] : spec.cores,
      maxExecutionMs: this.#maxExecutionMs,
      // A backend may answer after its execution, from a thread of its own; or forget to.
      watchesAnswers: !this.#source.signature.isDecoupled,
      tritonDeathText: (reason) =>
        reason.startsWith(overdueStart)
          ? `Failed to process the request(s) for model '${spec.name}', message: ${reason}`
          : `the host process of model instance '${spec.name}' is gone: ${reason}`,
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const starting = [...this.#starting]
    for (const link of starting) {
      if (this.#isHostShared) link.dismiss()
      else link.kill()
    }
    await Promise.all(starting.map((link) => link.gone()))
  }

  async #launch(spec: InstanceSpec, events: WorkerEvents): Promise<ProcessWorker> {
    if (this.#isClosed) throw new ServerError('UNAVAILABLE', `model '${this.#source.name}' is being unloaded`)
    const link = await this.#supply.launch(spec)
    const { name, signature } = this.#source
    const settings = {
      modelName: name,
      instanceName: spec.name,
      signature,
      stopGraceMs: this.#settings.stopSeconds * 1000,
      isAlone: true,
    }
    // The worker is made before the model is initialized, which may already log and make metrics.
    const worker = new ProcessWorker(this.#dependencies, settings, link, events)
    this.#starting.add(link)
    try {
      await link.initialize(this.#initializeBody(spec, link))
      return worker
    } catch (reason) {
      // Other instances of the model may be well.
      link.dismiss()
      throw reason
    } finally {
      this.#starting.delete(link)
    }
  }

  #initializeBody(spec: InstanceSpec, { regions }: WorkerLink): unknown {
    return {
      ...this.#body,
      instance: instanceFacts(spec, this.#source.config),
      maxMemoryBytes: this.#maxMemoryBytes,
      sharedMemory: regions === null ? null : regions.limits,
    }
  }
}

/** What the backend can ask about its instance. */
export function instanceFacts(
  spec: Pick<InstanceSpec, 'name' | 'kind' | 'deviceId' | 'cores'>,
  config: ModelConfig,
): object {
  // Instances are named after their group. A group `a` may stand beside a group `a_1`.
  const group = config.instanceGroup
    .filter(({ name }) => spec.name.startsWith(`${name}_`))
    .reduce<ModelInstanceGroup | null>(
      (longest, each) => (each.name.length > (longest?.name.length ?? -1) ? each : longest),
      null,
    )
  const { cores = [] } = spec
  const policy = hostPolicyName({ kind: spec.kind, hostPolicy: group?.hostPolicy ?? '' }, spec.deviceId)
  return {
    name: spec.name,
    kind: kindNumbers[spec.kind],
    deviceId: spec.deviceId,
    isPassive: group?.passive ?? false,
    hostPolicy: JSON.stringify({ [policy]: cores.length === 0 ? {} : { 'cpu-cores': cores.join() } }),
    profiles: group?.profile ?? [],
    secondaryDevices: (group?.secondaryDevices ?? []).map(({ kind, deviceId }) => ({ kind, id: deviceId })),
  }
}

// A model version whose instances are Workers that run TypeScript, for model.ts and for custom backends.

import { randomUUID } from 'node:crypto'
import type { Instance, InstanceSpec, LoadedModel, ModelFiles, ModelVersionSource } from '../../model/backend.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import { SupervisedInstance } from '../supervised-instance.ts'
import { applyDescription } from './model-description.ts'
import { ScriptWorker, type ScriptDependencies } from './script-worker.ts'
import type { WorkerLimits } from './worker-channel.ts'
import type { ModelPlace, ProgramSource, WorkerTask } from './worker-protocol.ts'

/** Long enough to fetch weights over a network, short enough to notice a start that hangs. */
const defaultInitializeMs = 300_000

export function createScriptModel(
  dependencies: ScriptDependencies,
  source: ModelVersionSource,
  program: ProgramSource,
): LoadedModel {
  const limits = workerLimits(source.config)
  const { signature } = source
  const load = randomUUID()
  const outputs = signature.outputs.map(({ name, dataType, dims, reshape }) => ({
    name,
    dataType,
    dims: [...(reshape ?? dims)],
  }))
  return {
    createInstance: (spec: InstanceSpec): Promise<Instance> => {
      const task: WorkerTask = {
        purpose: 'serve',
        load,
        program,
        place: placeOf(source.name, source.files, spec),
        config: source.config,
        outputs,
        isDecoupled: signature.isDecoupled,
        isBatching: signature.isBatching,
      }
      // Cores of its own need a process of its own.
      const placed: WorkerLimits = (spec.cores ?? []).length === 0 ? limits : { ...limits, isolation: 'process' }
      return SupervisedInstance.create(dependencies, {
        name: spec.name,
        modelName: source.name,
        onReadinessChange: spec.onReadinessChange,
        cores: spec.cores,
        maxExecutionMs: limits.maxExecutionMs,
        launch: (events) => ScriptWorker.launch(dependencies, task, placed, events),
        tritonDeathText: (reason) => `model '${source.name}', instance '${spec.name}' failed: ${reason}`,
      })
    },
    close: () => Promise.resolve(),
  }
}

/** Completes config.pbtxt with the description that the code gives in a short-lived Worker. */
export async function completeByScript(
  dependencies: ScriptDependencies,
  draft: ModelConfig,
  files: ModelFiles,
  program: ProgramSource,
): Promise<ModelConfig> {
  const task: WorkerTask = {
    purpose: 'describe',
    load: '',
    program,
    place: placeOf(draft.name, files, { name: draft.name, kind: 'KIND_CPU', deviceId: 0 }),
    config: draft,
    outputs: [],
    isDecoupled: false,
    isBatching: false,
  }
  const description = await ScriptWorker.describe(dependencies, task, workerLimits(draft))
  return description === null ? draft : applyDescription(draft, description)
}

const kindNames = { KIND_CPU: 'CPU', KIND_GPU: 'GPU', KIND_MODEL: 'MODEL' } as const

function placeOf(
  modelName: string,
  files: ModelFiles,
  spec: Pick<InstanceSpec, 'name' | 'kind' | 'deviceId'>,
): ModelPlace {
  return {
    modelName,
    modelVersion: files.version,
    modelInstanceName: spec.name,
    modelInstanceKind: kindNames[spec.kind],
    modelInstanceDeviceId: spec.deviceId,
    modelRepository: files.repositoryPath,
    modelDirectory: files.modelDirectory,
    versionDirectory: files.versionDirectory,
  }
}

function workerLimits(config: ModelConfig): WorkerLimits {
  return {
    maxExecutionMs: readParameter(config, 'max_execution_ms') ?? 0,
    maxInitializeMs: readParameter(config, 'max_initialize_ms') ?? defaultInitializeMs,
    maxMemoryMb: readParameter(config, 'max_memory_mb') ?? 0,
    isolation: readParameter(config, 'isolation') ?? 'thread',
  }
}

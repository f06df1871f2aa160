// The settings of a session of ONNX Runtime, from a model's parameters. Pure.

import { ServerError } from '../../base/server-error.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { parameterRow, readParameter } from '../../config/model-parameters.ts'
import { gpuBatchSizes } from './gpu-batch-sizes.ts'
import {
  gpuProviders,
  idleGpuSettings,
  refuseUnknownAccelerators,
  type ProviderSettings,
} from './execution-providers.ts'

/** Where a run takes place: on the main thread (`inline`) or on another thread (`offloaded`). */
export type Place = 'inline' | 'offloaded'

export type SessionSettings = {
  /** 0: ONNX Runtime's own choice, one per physical core. */
  readonly intraOpThreads: number
  /** On which the session computes (`--host-policy`); empty: all. */
  readonly cores: readonly number[]
  readonly interOpThreads: number
  readonly isParallel: boolean
  readonly graphLevel: 'disabled' | 'basic' | 'extended' | 'all'
  readonly hasMemoryArena: boolean
  readonly hasMemoryPattern: boolean
  /** `session.…` entries of ONNX Runtime's own configuration. */
  readonly sessionEntries: readonly (readonly [key: string, value: string])[]
  readonly runEntries: readonly (readonly [key: string, value: string])[]
  /** Absolute paths of libraries with custom operators, in the order of the configuration. */
  readonly customOpLibraries: readonly string[]
  /** In the order in which ONNX Runtime asks them; the plain CPU provider, which takes what is left, is not named. */
  readonly providers: readonly ProviderSettings[]
}

/** How a model uses its GPU, beside what ONNX Runtime does. */
export type GpuTraits = {
  /** `optimization { cuda { graphs: true } }`: the kernels of a run are recorded once for each shape, and started together. */
  readonly hasGraphs: boolean
  readonly isBusyWaiting: boolean
  /** Ascending; empty: batches run with the size that they have. */
  readonly batchSizes: readonly number[]
}

export type OnnxSettings = {
  readonly session: SessionSettings
  readonly gpu: GpuTraits
  /** Null: the place follows from the measured time. */
  readonly execution: Place | null
  /** 0: no limit. */
  readonly maxExecutionMs: number
  /** One line each, for the log. */
  readonly warnings: readonly string[]
}

const graphLevels: Readonly<Record<number, SessionSettings['graphLevel']>> = {
  [-1]: 'basic',
  0: 'all',
  1: 'extended',
  2: 'disabled',
}

export function parseOnnxSettings(
  config: ModelConfig,
  options: { resolveLibrary?: (file: string) => string } = {},
): OnnxSettings {
  const session: SessionSettings = {
    intraOpThreads: readParameter(config, 'intra_op_thread_count') ?? 0,
    cores: [],
    interOpThreads: readParameter(config, 'inter_op_thread_count') ?? 0,
    isParallel: readParameter(config, 'execution_mode') === 1,
    graphLevel: graphLevel(config) ?? 'all',
    hasMemoryArena: readParameter(config, 'enable_mem_arena') ?? true,
    hasMemoryPattern: readParameter(config, 'enable_mem_pattern') ?? true,
    sessionEntries: [...entryOf(config, 'session.use_device_allocator_for_initializers'), spinningEntry(config)],
    runEntries: entryOf(config, 'memory.enable_memory_arena_shrinkage'),
    customOpLibraries: (config.modelOperations?.opLibraryFilename ?? []).map(
      options.resolveLibrary ?? ((file) => file),
    ),
    providers: [],
  }
  refuseUnknownAccelerators(config)
  const { graphs = false, busyWaitEvents = false } = config.optimization?.cuda ?? {}
  return {
    session,
    gpu: { hasGraphs: graphs, isBusyWaiting: busyWaitEvents, batchSizes: gpuBatchSizes(config, graphs) },
    execution: readParameter(config, 'execution'),
    maxExecutionMs: readParameter(config, 'max_execution_ms') ?? 0,
    warnings: [...settingWarnings(config)],
  }
}

/** The settings of a session on a GPU. Throws for options that a provider does not have. */
export function gpuSession({ session, gpu }: OnnxSettings, config: ModelConfig, deviceId: number): SessionSettings {
  if (gpu.hasGraphs && session.runEntries.length > 0) {
    const text =
      `model '${config.name}' has CUDA graphs (optimization.cuda.graphs) and parameter 'memory.enable_memory_arena_shrinkage': ` +
      'a graph keeps the addresses of memory that the other gives back. Leave one of them out'
    throw new ServerError('INVALID_ARG', text)
  }
  const graphs: ProviderSettings['options'] = gpu.hasGraphs ? [['enable_cuda_graph', '1']] : []
  const providers = gpuProviders(config, deviceId).map(({ name, options }) =>
    name === 'cuda' ? { name, options: [...options, ...graphs] } : { name, options },
  )
  if (gpu.hasGraphs && providers.some(({ name }) => name === 'tensorrt')) {
    const text =
      `model '${config.name}' has CUDA graphs (optimization.cuda.graphs) and the accelerator 'tensorrt': ONNX Runtime records only what ` +
      'its CUDA provider runs alone. Leave one of them out'
    throw new ServerError('INVALID_ARG', text)
  }
  if (gpu.hasGraphs && providers.some(({ options }) => options.some(([key, value]) => isFusing(key, value)))) {
    const text =
      `model '${config.name}' has CUDA graphs (optimization.cuda.graphs) and fuse_conv_bias: the recording of such a graph did ` +
      'not end on the GPU where it was tried. Leave one of them out'
    throw new ServerError('INVALID_ARG', text)
  }
  return { ...session, providers }
}

const isFusing = (key: string, value: string): boolean => key === 'fuse_conv_bias' && value !== '0'

/** A parameter that ONNX Runtime itself reads, by the same name. */
function entryOf(
  config: ModelConfig,
  key: 'session.use_device_allocator_for_initializers' | 'memory.enable_memory_arena_shrinkage',
): SessionSettings['runEntries'] {
  const text = readParameter(config, key)
  return text === null ? [] : [[key, text]]
}

/**
 * The threads of a session look for work in a busy loop. ONNX Runtime has them go on for 20 ms after each run, which then costs more
 * than the run and takes a core from all others; here they stop with the run.
 */
const spinningEntry = (config: ModelConfig): readonly [string, string] => [
  'session.force_spinning_stop',
  (readParameter(config, 'session.force_spinning_stop') ?? true) ? '1' : '0',
]

const graphLevel = (config: ModelConfig): SessionSettings['graphLevel'] | undefined =>
  graphLevels[config.optimization?.graph?.level ?? 0]

function* settingWarnings(config: ModelConfig): Generator<string> {
  if (graphLevel(config) === undefined) {
    const level = config.optimization?.graph?.level
    yield `optimization.graph.level ${level} is not known (-1 basic, 0 all, 1 extended, 2 disabled); all optimisations are on`
  }
  yield* idleGpuSettings(config)
  for (const key of config.parameters.keys()) {
    if (parameterRow('onnxruntime', key) !== null) continue
    yield `parameter '${key}' is not known to the onnxruntime backend and is ignored`
  }
}

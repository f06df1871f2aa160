// The settings of a GGUF model: what its configuration says, and defaults from the file and the machine.

import { availableParallelism } from 'node:os'
import path from 'node:path'
import { ServerError } from '../../base/server-error.ts'
import { readParameter } from '../../config/model-parameters.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { LanguageFacts } from '../../llm/language-facts.ts'
import type { InstanceSpec, ModelFiles } from '../../model/backend.ts'
import type { EngineSettings } from './engine-protocol.ts'

const usualSequences = 16
const usualContextLength = 8192
const usualCells = 16_384
const usualBatchTokens = 2048
const allLayers = 999
/** Beside a GPU the processor only looks up the vectors of tokens. */
const gpuThreads = 4

export function llamaSettings(
  config: ModelConfig,
  facts: LanguageFacts,
  files: ModelFiles,
  spec: Pick<InstanceSpec, 'kind' | 'deviceId'>,
): EngineSettings {
  const kind = readParameter(config, 'language_task') ?? facts.kind
  const slots = readParameter(config, 'max_sequences') ?? usualSequences
  const trained = facts.contextLength === 0 ? usualContextLength : facts.contextLength
  const contextLength = readParameter(config, 'context_length') ?? Math.min(trained, usualContextLength)
  const cells =
    readParameter(config, 'kv_cells') ?? Math.max(contextLength, Math.min(slots * contextLength, usualCells))
  const isOnGpu = spec.kind === 'KIND_GPU'
  const cores = availableParallelism()
  return {
    kind,
    slots,
    cells,
    contextLength: Math.min(contextLength, cells),
    batchTokens: readParameter(config, 'step_tokens') ?? Math.min(usualBatchTokens, cells),
    promptTokens: readParameter(config, 'prompt_tokens_per_step') ?? 0,
    threads: readParameter(config, 'n_threads') ?? (isOnGpu ? Math.min(gpuThreads, cores) : cores),
    weights: readParameter(config, 'weights') ?? 'file',
    gpuLayers: isOnGpu ? (readParameter(config, 'n_gpu_layers') ?? allLayers) : 0,
    gpu: isOnGpu ? spec.deviceId : 0,
    gpuSplit: readParameter(config, 'gpu_split') ?? 'none',
    waiting: 4 * slots,
    answerMs: readParameter(config, 'max_execution_ms') ?? 0,
    adapters: adaptersOf(config, files),
  }
}

/** What the configuration says for GPUs, where no instance of the model is on one. */
export function idleGpuSettings({ instanceGroup, parameters }: ModelConfig): string[] {
  if (instanceGroup.some(({ kind }) => kind === 'KIND_GPU')) return []
  return (['n_gpu_layers', 'gpu_split'] as const)
    .filter((name) => parameters.has(name))
    .map((name) => `parameter '${name}' has no effect: no instance of the model is on a GPU`)
}

/** `name=path` pairs with commas between; a path is below the model's folder. */
function adaptersOf(config: ModelConfig, files: ModelFiles): EngineSettings['adapters'] {
  const text = readParameter(config, 'lora_adapters') ?? ''
  return text
    .split(',')
    .filter((each) => each.trim() !== '')
    .map((each) => {
      const [name = '', place = ''] = each.split('=').map((part) => part.trim())
      const file = path.resolve(files.modelDirectory, place)
      if (name === '' || place === '' || !file.startsWith(path.resolve(files.modelDirectory) + path.sep)) {
        const expected = "must be 'name=file' pairs with commas between, with files below the model's folder"
        throw new ServerError(
          'INVALID_ARG',
          `parameter 'lora_adapters' of model '${config.name}' ${expected}, got '${each}'`,
        )
      }
      return { name, path: file }
    })
}

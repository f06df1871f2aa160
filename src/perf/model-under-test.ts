// The description of the measured model, as the server gives it.

import type { InferenceClient, ModelConfig } from '../client/inference-client.ts'
import type { DataType } from '../tensor/data-type.ts'
import type { Shape } from '../tensor/shape.ts'

export type ModelInput = {
  readonly name: string
  readonly dataType: DataType
  /** Without the batch dimension; -1 for open dimensions. */
  readonly shape: Shape
  readonly isOptional: boolean
}

export type ComposingModel = { readonly name: string; readonly version: string; readonly composing: ComposingModel[] }

export type ModelUnderTest = {
  readonly name: string
  /** The version of the command line; '' for the latest. */
  readonly version: string
  /** 0: the model takes no batches. */
  readonly maxBatchSize: number
  readonly inputs: readonly ModelInput[]
  readonly outputs: readonly { readonly name: string; readonly dataType: DataType }[]
  readonly isSequence: boolean
  readonly isDecoupled: boolean
  readonly isCached: boolean
  /** The models of an ensemble, or the models that the command line names. */
  readonly composing: readonly ComposingModel[]
  readonly hasStatistics: boolean
}

export async function readModel(
  client: InferenceClient,
  name: string,
  version: string,
  callees: readonly (readonly [name: string, version: string])[],
): Promise<ModelUnderTest> {
  const { extensions } = await client.serverMetadata()
  const { inputs, outputs } = await client.modelMetadata(name, { version })
  const config = await client.modelConfig(name, { version })
  const maxBatchSize = config.max_batch_size
  const optional = new Set(config.input.filter((input) => input['optional'] === true).map((input) => input.name))
  const steps = await composingOf(client, config, 0)
  const isAnywhere = async (holds: (config: ModelConfig) => boolean): Promise<boolean> =>
    holds(config) || (await hasStep(client, steps, holds))
  const named = await Promise.all(
    callees.map(async ([callee, calleeVersion]): Promise<ComposingModel> => {
      const composing = await composingOf(client, await client.modelConfig(callee, { version: calleeVersion }), 1)
      return { name: callee, version: calleeVersion, composing }
    }),
  )
  return {
    name,
    version,
    maxBatchSize,
    inputs: inputs.map((input) => ({
      name: input.name,
      dataType: input.dataType,
      shape: maxBatchSize > 0 ? input.shape.slice(1) : input.shape,
      isOptional: optional.has(input.name),
    })),
    outputs: outputs.map((output) => ({ name: output.name, dataType: output.dataType })),
    isSequence: await isAnywhere(isSequence),
    isDecoupled: isSet(config['model_transaction_policy'], 'decoupled'),
    isCached: await isAnywhere((each) => isSet(each['response_cache'], 'enable')),
    composing: [...steps, ...named],
    hasStatistics: extensions.includes('statistics'),
  }
}

const isSet = (value: unknown, key: string): boolean =>
  typeof value === 'object' && value !== null && (value as Record<string, unknown>)[key] === true

const isSequence = (config: ModelConfig): boolean => (config['sequence_batching'] ?? null) !== null

const deepestEnsemble = 16

async function composingOf(client: InferenceClient, config: ModelConfig, depth: number): Promise<ComposingModel[]> {
  const scheduling = config['ensemble_scheduling'] as { step?: { model_name: string; model_version?: number }[] } | null
  const found = new Map<string, ComposingModel>()
  for (const step of depth < deepestEnsemble ? (scheduling?.step ?? []) : []) {
    const asked = step.model_version ?? -1
    const version = asked > 0 ? String(asked) : ''
    const key = `${step.model_name}:${version}`
    if (found.has(key)) continue
    const inner = await client.modelConfig(step.model_name, { version })
    found.set(key, { name: step.model_name, version, composing: await composingOf(client, inner, depth + 1) })
  }
  return [...found.values()]
}

async function hasStep(
  client: InferenceClient,
  models: readonly ComposingModel[],
  holds: (config: ModelConfig) => boolean,
): Promise<boolean> {
  for (const { name, version, composing } of models) {
    if (holds(await client.modelConfig(name, { version })) || (await hasStep(client, composing, holds))) return true
  }
  return false
}

// Makes the inputs of a run from the requests of a batch.

import { ServerError } from '../../base/server-error.ts'
import { batchInputTensors, raggedParts, type BatchLayout } from './batch-layout.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { gatherBytes } from '../../tensor/gather.ts'
import type { Shape } from '../../tensor/shape.ts'
import { sizeKey } from './execution-place.ts'
import type { RunInput } from './onnx-session.ts'

export type InputPlaces = {
  readonly modelName: string
  /** Input name → position in a run's inputs. */
  readonly inputIndex: ReadonlyMap<string, number>
  readonly inputCount: number
  /** Null: the model has no ragged inputs and no inputs made from shapes. */
  readonly layout: BatchLayout | null
  /** The runner takes an input in parts, so the main thread need not join them. */
  readonly takesParts?: boolean
}

export type GatheredInputs = {
  readonly inputs: readonly (RunInput | null)[]
  /** Which runs take about as long as this one. */
  readonly sizeKey: number
}

/** Inputs of one request are its own bytes, without a copy. Rows of several requests are joined with 1 copy. */
export function gatherInputs(places: InputPlaces, requests: readonly InferenceRequest[]): GatheredInputs {
  const inputs = requests.length === 1 ? inputsOf(places, requests[0] as InferenceRequest) : gather(places, requests)
  if (places.layout !== null) arrange(places.layout, places, requests, inputs)
  return { inputs, sizeKey: sizeKey(inputs) }
}

// HOT: once per request.
function inputsOf({ inputCount, inputIndex, modelName }: InputPlaces, request: InferenceRequest): (RunInput | null)[] {
  const inputs: (RunInput | null)[] = []
  for (let i = 0; i < inputCount; i++) inputs.push(null)
  for (const tensor of request.inputs) {
    const index = inputIndex.get(tensor.name)
    if (index === undefined) throw unknownInput(tensor.name, modelName)
    inputs[index] = tensor
  }
  return inputs
}

function gather(places: InputPlaces, requests: readonly InferenceRequest[]): (RunInput | null)[] {
  const perRequest = requests.map((request) => inputsOf(places, request))
  const first = perRequest[0] as (RunInput | null)[]
  const ragged = new Set([...(places.layout?.raggedInputs ?? [])].map((name) => places.inputIndex.get(name)))
  return first.map((input, index) => {
    if (input === null || ragged.has(index)) return null
    const parts: Uint8Array[] = []
    let rows = 0
    for (const inputs of perRequest) {
      const part = inputs[index]
      if (part === null || part === undefined) throw unevenInputs(places.modelName)
      parts.push(part.bytes)
      rows += part.shape[0] ?? 0
    }
    const shape = [rows, ...input.shape.slice(1)]
    return joined(places, shape, parts)
  })
}

/** Adds the inputs that the layout asks for. */
function arrange(
  layout: BatchLayout,
  places: InputPlaces,
  requests: readonly InferenceRequest[],
  inputs: (RunInput | null)[],
): void {
  const indexOf = (name: string): number => {
    const index = places.inputIndex.get(name)
    if (index === undefined) throw unknownInput(name, places.modelName)
    return index
  }
  const first = requests[0] as InferenceRequest
  for (const { name } of first.inputs.filter((input) => layout.raggedInputs.has(input.name))) {
    const { shape, parts } = raggedParts(name, requests)
    inputs[indexOf(name)] = joined(places, shape, parts)
  }
  for (const tensor of batchInputTensors(layout, requests)) inputs[indexOf(tensor.name)] = tensor
}

/** 1 copy; none for a single part. Parts may lie on a GPU where the runner takes them: nobody can join those here. */
function joined({ takesParts = false }: InputPlaces, shape: Shape, parts: readonly Uint8Array[]): RunInput {
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return { shape, bytes: only }
  return takesParts ? { shape, bytes: noBytes, parts } : { shape, bytes: gatherBytes(parts) }
}

const noBytes = new Uint8Array(0)

const unknownInput = (name: string, modelName: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `unexpected inference input '${name}' for model '${modelName}'`)

const unevenInputs = (modelName: string): ServerError =>
  ServerError.withoutStack('INTERNAL', `requests of one batch for model '${modelName}' have different sets of inputs`)

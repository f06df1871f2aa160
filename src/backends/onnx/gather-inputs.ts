// Makes the inputs of a run from the requests of a batch.

import { ServerError } from '../../base/server-error.ts'
import { batchInputTensors, raggedTensor, type BatchLayout } from './batch-layout.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { gatherBytes } from '../../tensor/gather.ts'
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
  const { layout } = places
  if (layout !== null) arrange(layout, places, requests, inputs)
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
    return places.takesParts === true ? { shape, bytes: noBytes, parts } : { shape, bytes: gatherBytes(parts) }
  })
}

/** Adds the inputs that the layout asks for. */
function arrange(
  layout: BatchLayout,
  { inputIndex, modelName }: InputPlaces,
  requests: readonly InferenceRequest[],
  inputs: (RunInput | null)[],
): void {
  const first = requests[0] as InferenceRequest
  const ragged = first.inputs.filter((input) => layout.raggedInputs.has(input.name))
  const made = [...ragged.map((input) => raggedTensor(input.name, requests)), ...batchInputTensors(layout, requests)]
  for (const tensor of made) {
    const index = inputIndex.get(tensor.name)
    if (index === undefined) throw unknownInput(tensor.name, modelName)
    inputs[index] = tensor
  }
}

const noBytes = new Uint8Array(0)

const unknownInput = (name: string, modelName: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `unexpected inference input '${name}' for model '${modelName}'`)

const unevenInputs = (modelName: string): ServerError =>
  ServerError.withoutStack('INTERNAL', `requests of one batch for model '${modelName}' have different sets of inputs`)

// Triton's wire names → the names that this client gives to them.

import type { DataType } from '../tensor/data-type.ts'
import type { ModelMetadata, ModelStatistics, TensorMetadata } from './inference-client.ts'

/** `compute_input` → `computeInput`, in every object of the value. Keys of maps (`0`, `1`) have no underscore. */
export function camelCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCased)
  // A sum of nanoseconds may pass 2^53 after months; over HTTP it is a number then, too.
  if (typeof value === 'bigint') return Number(value)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      camelCased(inner),
    ]),
  )
}

/** bigints as numbers, in every object of the value. */
export function plainNumbers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value)
  if (Array.isArray(value)) return value.map(plainNumbers)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plainNumbers(inner)]))
}

export const statisticsOf = (modelStats: readonly unknown[]): readonly ModelStatistics[] =>
  camelCased(modelStats) as ModelStatistics[]

type WireTensor = { readonly name: string; readonly datatype: string; readonly shape: readonly number[] }
export type WireMetadata = Omit<ModelMetadata, 'inputs' | 'outputs'> & {
  readonly inputs?: readonly WireTensor[]
  readonly outputs?: readonly WireTensor[]
}

const tensorMetadataOf = ({ name, datatype, shape }: WireTensor): TensorMetadata => ({
  name,
  dataType: datatype as DataType,
  shape,
})

export const modelMetadataOf = ({ name, versions, platform, inputs, outputs }: WireMetadata): ModelMetadata => ({
  name,
  versions,
  platform,
  inputs: (inputs ?? []).map(tensorMetadataOf),
  outputs: (outputs ?? []).map(tensorMetadataOf),
})

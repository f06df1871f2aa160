// The sizes of batches that a model on a GPU runs with. cuDNN plans its kernels anew for each size, and a CUDA graph has one
// size, so a batch is filled up to one of a few sizes. Pure.

import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import { batchLayoutOf } from './batch-layout.ts'

/** Ascending; empty: batches run with the size that they have. */
export function gpuBatchSizes(config: ModelConfig, hasGraphs: boolean): readonly number[] {
  const { maxBatchSize } = config
  const wanted = readParameter(config, 'gpu_batch_sizes') ?? (hasGraphs ? 'auto' : 'off')
  if (wanted === 'off' || maxBatchSize <= 1 || batchLayoutOf(config) !== null) return []
  if (wanted !== 'auto') return ascending(wanted, maxBatchSize)
  const specs = config.optimization?.cuda?.graphSpec ?? []
  const inSpecs = specs.map(({ batchSize }) => batchSize).filter((size) => size > 0)
  return ascending(inSpecs.length > 0 ? inSpecs : powersOfTwo(maxBatchSize), maxBatchSize)
}

/** How many rows a batch of `rows` has when it is filled up. Above the largest size it stays as it is. */
export const filledRows = (sizes: readonly number[], rows: number): number => sizes.find((size) => size >= rows) ?? rows

/** Sizes above `most` are of no use: no batch has them. */
const ascending = (sizes: readonly number[], most: number): number[] =>
  [...new Set([...sizes.filter((size) => size < most), most])].toSorted((a, b) => a - b)

function powersOfTwo(most: number): number[] {
  const sizes: number[] = []
  for (let size = 1; size < most; size *= 2) sizes.push(size)
  return sizes
}

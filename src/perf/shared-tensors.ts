// Inputs and outputs in system shared memory: one region with the tensors of every step, one with room for the outputs.

import { rmSync } from 'node:fs'
import path from 'node:path'
import type { WireInput } from '../client/infer-request.ts'
import type { InferenceClient } from '../client/inference-client.ts'
import { createSharedMemoryRegion, type SharedMemoryRegion } from '../client/node/shared-memory-region.ts'
import type { InputStreams } from './input-step.ts'
import type { ModelUnderTest } from './model-under-test.ts'
import type { PerfOptions } from './perf-options.ts'
import { batchedInputs, batchStarts, type PlacedStep } from './prepare-requests.ts'

const alignment = 64
const placeBytes = (bytes: number): number => Math.max(1, Math.ceil(bytes / alignment)) * alignment

export class SharedTensors {
  readonly placed: readonly (readonly PlacedStep[])[]
  readonly #regions: readonly SharedMemoryRegion[]

  private constructor(placed: readonly (readonly PlacedStep[])[], regions: readonly SharedMemoryRegion[]) {
    this.placed = placed
    this.#regions = regions
    process.once('exit', this.#unlink)
  }

  /** Without this, a process that ends early would leave its memory behind until the machine restarts. */
  readonly #unlink = (): void => {
    for (const { name } of this.#regions) rmSync(path.join('/dev/shm', name), { force: true })
  }

  static async create(
    client: InferenceClient,
    streams: InputStreams,
    model: ModelUnderTest,
    options: PerfOptions,
  ): Promise<SharedTensors> {
    const { batchSize, outputSharedMemoryBytes } = options
    const inputs = streams.map((steps) =>
      batchStarts(steps.length, batchSize).map((at) => batchedInputs(steps, at, model, batchSize)),
    )
    const inputBytes = inputs.flat(2).reduce((sum, { bytes }) => sum + placeBytes(bytes?.length ?? 0), 0)
    const outputBytes = placeBytes(outputSharedMemoryBytes * batchSize)
    const regions: SharedMemoryRegion[] = []
    try {
      const input = await createSharedMemoryRegion({ byteSize: Math.max(alignment, inputBytes) })
      regions.push(input)
      const output = await createSharedMemoryRegion({ byteSize: Math.max(1, model.outputs.length) * outputBytes })
      regions.push(output)
      for (const region of regions) await region.register(client)
      // Every request writes to the same place, because nobody reads these answers.
      const outputs = model.outputs.map(({ name }) => ({ name, sharedMemory: output.reserve(outputBytes) }))
      const placed: PlacedStep[][] = []
      for (const steps of inputs) {
        const row: PlacedStep[] = []
        for (const tensors of steps) row.push({ inputs: await placeInputs(input, tensors), outputs })
        placed.push(row)
      }
      return new SharedTensors(placed, regions)
    } catch (reason) {
      for (const region of regions) await region.close()
      throw reason
    }
  }

  async close(): Promise<void> {
    process.off('exit', this.#unlink)
    for (const region of this.#regions) await region.close()
  }
}

async function placeInputs(region: SharedMemoryRegion, tensors: readonly WireInput[]): Promise<WireInput[]> {
  const placed: WireInput[] = []
  for (const tensor of tensors) {
    const bytes = tensor.bytes ?? new Uint8Array(0)
    const { sharedMemory } = await region.write(bytes, { dataType: 'UINT8', shape: [bytes.length] })
    placed.push({ ...tensor, bytes: null, sharedMemory })
  }
  return placed
}

import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import type { AskFree } from './gpu-meter.ts'

/** The GPUs that instances of the model are on. */
export const devicesOf = ({ instanceGroup }: Pick<ModelConfig, 'instanceGroup'>): number[] => [
  ...new Set(instanceGroup.flatMap(({ kind, gpus }) => (kind === 'KIND_GPU' ? gpus : []))),
]

/** With `gpu_placement` `most_free` each group of `config` keeps one of its GPUs. A GPU that nobody can tell of comes last. */
export async function placeOnGpus(config: ModelConfig, ask: AskFree): Promise<void> {
  if (readParameter(config, 'gpu_placement') !== 'most_free') return
  for (const group of config.instanceGroup) {
    if (group.kind !== 'KIND_GPU' || group.gpus.length < 2) continue
    const free = await Promise.all(group.gpus.map(async (device) => (await ask(device)) ?? -1))
    const best = free.indexOf(Math.max(...free))
    group.gpus = group.gpus.slice(best, best + 1)
  }
}

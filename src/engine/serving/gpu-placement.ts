// Which of its GPUs a model is on: the parameter `gpu_placement`.

import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import type { AskFree } from './gpu-meter.ts'

type Grouped = Pick<ModelConfig, 'instanceGroup'>

/** The GPUs that instances of the model are on. */
export const devicesOf = ({ instanceGroup }: Grouped): number[] => [
  ...new Set(instanceGroup.flatMap(({ kind, gpus }) => (kind === 'KIND_GPU' ? gpus : []))),
]

/** With `gpu_placement` `most_free` the groups of `rescaled` stay on the GPUs that the load of `config` chose, where they name them. */
export function keepPlace(config: ModelConfig, rescaled: ModelConfig): void {
  if (readParameter(config, 'gpu_placement') !== 'most_free') return
  for (const [index, group] of rescaled.instanceGroup.entries()) {
    if (group.kind !== 'KIND_GPU') continue
    const chosen = [...(config.instanceGroup[index]?.gpus ?? []), ...devicesOf(config)]
    group.gpus = [chosen.find((device) => group.gpus.includes(device)) ?? group.gpus[0]].flatMap(
      (device) => device ?? [],
    )
  }
}

export class GpuPlacement {
  readonly #ask: AskFree
  /** Loads under way, by the GPU that was chosen for them: what they take is not taken yet. */
  readonly #underWay = new Map<number, number>()
  readonly #chosen = new WeakMap<Grouped, readonly number[]>()

  constructor(ask: AskFree) {
    this.#ask = ask
  }

  /**
   * With `gpu_placement` `most_free` each group of `config` keeps one of its GPUs: of those with the fewest loads under way, the
   * one with the most free memory. A GPU that nobody can tell of comes last. Whoever calls this calls `ended`, too.
   */
  async place(config: ModelConfig): Promise<void> {
    if (readParameter(config, 'gpu_placement') !== 'most_free') return
    const groups = config.instanceGroup.filter(({ kind, gpus }) => kind === 'KIND_GPU' && gpus.length > 1)
    const devices = [...new Set(groups.flatMap(({ gpus }) => gpus))]
    const free = new Map(await Promise.all(devices.map(async (id) => [id, (await this.#ask(id)) ?? -1] as const)))
    // No other load comes between the choice and its note.
    for (const group of groups) {
      const isBetter = (one: number, other: number): boolean => {
        const fewer = this.#loadsOn(other) - this.#loadsOn(one)
        return fewer > 0 || (fewer === 0 && (free.get(one) ?? -1) > (free.get(other) ?? -1))
      }
      const best = group.gpus.reduce((found, device) => (isBetter(device, found) ? device : found))
      group.gpus = [best]
      this.#underWay.set(best, this.#loadsOn(best) + 1)
    }
    const chosen = groups.flatMap(({ gpus }) => gpus)
    this.#chosen.set(config, chosen)
  }

  /** The load of `config` has come to its end, good or bad. */
  ended(config: ModelConfig): void {
    for (const device of this.#chosen.get(config) ?? []) this.#underWay.set(device, this.#loadsOn(device) - 1)
    this.#chosen.delete(config)
  }

  #loadsOn(device: number): number {
    return this.#underWay.get(device) ?? 0
  }
}

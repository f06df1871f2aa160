import type { ModelConfig } from '../config/model-config.ts'
import { activeGroups } from '../config/scale-limits.ts'

/** Above this share of the memory of the machine, or of a GPU, no instance is added. */
export const mostMemoryShare = 0.9

/** Why no instance can be added now; '' when one can. */
export async function growthObstacle(
  config: ModelConfig,
  memoryShare: () => number,
  gpuShare: (deviceId: number) => Promise<number | null>,
): Promise<string> {
  const share = memoryShare()
  if (share > mostMemoryShare) return `${percent(share)} of the memory are used`
  const devices = activeGroups(config).flatMap(({ kind, gpus }) => (kind === 'KIND_GPU' ? gpus : []))
  for (const deviceId of new Set(devices)) {
    const used = (await gpuShare(deviceId)) ?? 0
    if (used > mostMemoryShare) return `${percent(used)} of the memory of GPU ${deviceId} are used`
  }
  return ''
}

const percent = (share: number): string => `${Math.round(share * 100)} %`

import { ServerError } from '../../base/server-error.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { usedGpuShare } from '../../telemetry/gpu-count.ts'

/** `--model-load-gpu-limit`: nothing more is loaded on a GPU whose memory is used above its limit. The first half is Triton's text. */
export async function requireGpuMemory(
  { name, instanceGroup }: Pick<ModelConfig, 'name' | 'instanceGroup'>,
  limits: ReadonlyMap<number, number>,
  ask: (deviceId: number) => Promise<number | null> = usedGpuShare,
): Promise<void> {
  if (limits.size === 0) return
  const devices = new Set(instanceGroup.flatMap(({ kind, gpus }) => (kind === 'KIND_GPU' ? gpus : [])))
  for (const deviceId of devices) {
    const limit = limits.get(deviceId)
    const used = limit === undefined ? null : await ask(deviceId)
    if (limit === undefined || used === null || used <= limit) continue
    throw new ServerError(
      'UNAVAILABLE',
      `can not create model '${name}': memory limit set for GPU ${deviceId} has exceeded, model loading is rejected. ` +
        `${Math.round(used * 100)} % of its memory are used, --model-load-gpu-limit is ${Math.round(limit * 100)} %`,
    )
  }
}

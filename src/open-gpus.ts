import type { Gpus } from './cuda/gpus.ts'
import type { EngineSettings } from './options/server-options.ts'
import { findGpus } from './telemetry/gpu-count.ts'

type GpuOptions = Pick<EngineSettings, 'minComputeCapability' | 'gpuPoolBytes' | 'pinnedPoolBytes'>

export const countGpus = ({ minComputeCapability }: Pick<GpuOptions, 'minComputeCapability'>): number =>
  findGpus(process.env, minComputeCapability)

/** The GPUs that models and clients may use; null where there are none, and then no code for GPUs is read. */
export async function openGpus(options: GpuOptions): Promise<Gpus | null> {
  const count = countGpus(options)
  if (count === 0) return null
  const { Gpus: OpenGpus } = await import('./cuda/gpus.ts')
  return new OpenGpus({ count, poolBytes: options.gpuPoolBytes, pinnedBytes: options.pinnedPoolBytes })
}

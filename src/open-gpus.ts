import type { Log } from './base/log.ts'
import { messageOf } from './base/server-error.ts'
import { interpreterOf } from './config/backend-interpreter.ts'
import type { Gpus } from './cuda/gpus.ts'
import type { EngineSettings } from './options/server-options.ts'
import { findGpus } from './telemetry/gpu-count.ts'

type GpuOptions = Pick<EngineSettings, 'minComputeCapability' | 'gpuPoolBytes' | 'pinnedPoolBytes'>

type LimitOptions = Pick<EngineSettings, 'gpuMemoryLimitBytes' | 'gpuLoadLimits' | 'gpuPoolBytes'>

export const countGpus = ({ minComputeCapability }: Pick<GpuOptions, 'minComputeCapability'>): number =>
  findGpus(process.env, minComputeCapability)

/** Settings for GPUs that are not there. They have no effect, and a typing error must not look as if it worked. */
export function absentGpus(options: LimitOptions, count: number): string[] {
  const found =
    count === 0 ? 'no GPU was found' : `there are the GPUs ${Array.from({ length: count }, (_, id) => id).join(', ')}`
  const named: readonly (readonly [flag: string, gpus: Iterable<number>])[] = [
    ['model-memory-limit', options.gpuMemoryLimitBytes.keys()],
    ['model-load-gpu-limit', options.gpuLoadLimits.keys()],
    ['cuda-memory-pool-byte-size', options.gpuPoolBytes.keys()],
  ]
  return named.flatMap(([flag, gpus]) =>
    [...gpus].filter((id) => id >= count).map((id) => `--${flag} of GPU ${id} has no effect: ${found}`),
  )
}

/** Why ONNX models cannot be on the GPUs of this machine, and what to do; null: they can, as far as libraries tell. */
export async function onnxObstacle({
  backendConfig,
  minComputeCapability,
}: Pick<EngineSettings, 'backendConfig' | 'minComputeCapability'>): Promise<string | null> {
  const { findLibrary, missingText, wantedLibraries } = await import('./backends/onnx/find-library.ts')
  const { preloadLibraries } = await import('./backends/onnx/native/preload-libraries.ts')
  const settingOf = (key: string): string | undefined =>
    backendConfig.get('onnxruntime')?.get(key) ?? backendConfig.get('')?.get(key)
  try {
    const library = await findLibrary({
      libraryPath: settingOf('library-path') ?? '',
      interpreter: settingOf('interpreter') ?? interpreterOf(backendConfig, 'python'),
      environment: process.env,
      gpuCount: countGpus({ minComputeCapability }),
    })
    if (library.gpuObstacle !== null) return library.gpuObstacle
    const missing = await preloadLibraries(await wantedLibraries(library, 'cuda'))
    return missing.length === 0 ? null : missingText('cuda', missing)
  } catch (reason) {
    return messageOf(reason)
  }
}

/** The GPUs that models and clients may use; null where there are none, and then no code for GPUs is read. */
export async function openGpus(options: GpuOptions, log: Log): Promise<Gpus | null> {
  const count = countGpus(options)
  if (count === 0) return null
  const { Gpus: OpenGpus } = await import('./cuda/gpus.ts')
  const gpus = new OpenGpus({ count, poolBytes: options.gpuPoolBytes, pinnedBytes: options.pinnedPoolBytes })
  gpus.faults.listen((gpu, reason) => {
    log.error('a GPU cannot be used any more: start the server again', { gpu, reason })
  })
  return gpus
}

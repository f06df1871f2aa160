import type { GpuState } from './gpu-metrics.ts'
import { labelText, sampleLine, type MetricsText } from './metrics-text.ts'

const family = (name: string, type: 'counter' | 'gauge', help: string, read: (gpu: GpuState) => number | null) => ({
  name,
  type,
  help,
  read,
})

/** One series per GPU each, labelled `gpu_uuid`. */
export const gpuFamilies = [
  family('nv_gpu_utilization', 'gauge', 'GPU utilization rate [0.0 - 1.0)', (gpu) => gpu.utilization),
  family('nv_gpu_memory_total_bytes', 'gauge', 'GPU total memory, in bytes', (gpu) => gpu.memoryTotalBytes),
  family('nv_gpu_memory_used_bytes', 'gauge', 'GPU used memory, in bytes', (gpu) => gpu.memoryUsedBytes),
  family('nv_gpu_power_usage', 'gauge', 'GPU power usage in watts', (gpu) => gpu.powerWatts),
  family('nv_gpu_power_limit', 'gauge', 'GPU power management limit in watts', (gpu) => gpu.powerLimitWatts),
  family(
    'nv_energy_consumption',
    'counter',
    'GPU energy consumption in joules since the Triton Server started',
    (gpu) => gpu.energyJoules,
  ),
]

export function gpuText(text: MetricsText, gpus: readonly GpuState[]): string {
  let all = ''
  for (const { name, type, help, read } of gpuFamilies) {
    const lines = gpus.flatMap((gpu) => {
      const value = read(gpu)
      return value === null ? [] : [sampleLine(text, name, labelText([['gpu_uuid', gpu.uuid]]), value)]
    })
    if (lines.length > 0) all += text.familyHead(name, help, type) + lines.join('')
  }
  return all
}

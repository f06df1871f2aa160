import type { GpuState } from './gpu-metrics.ts'
import { labelText, sampleLine, type MetricsText } from './metrics-text.ts'

type GpuFamily = {
  readonly name: string
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly read: (gpu: GpuState) => number | null
}

/** One series per GPU each, labelled `gpu_uuid`. */
export const gpuFamilies: readonly GpuFamily[] = [
  {
    name: 'nv_gpu_utilization',
    type: 'gauge',
    help: 'GPU utilization rate [0.0 - 1.0)',
    read: (gpu) => gpu.utilization,
  },
  {
    name: 'nv_gpu_memory_total_bytes',
    type: 'gauge',
    help: 'GPU total memory, in bytes',
    read: (gpu) => gpu.memoryTotalBytes,
  },
  {
    name: 'nv_gpu_memory_used_bytes',
    type: 'gauge',
    help: 'GPU used memory, in bytes',
    read: (gpu) => gpu.memoryUsedBytes,
  },
  { name: 'nv_gpu_power_usage', type: 'gauge', help: 'GPU power usage in watts', read: (gpu) => gpu.powerWatts },
  {
    name: 'nv_gpu_power_limit',
    type: 'gauge',
    help: 'GPU power management limit in watts',
    read: (gpu) => gpu.powerLimitWatts,
  },
  {
    name: 'nv_energy_consumption',
    type: 'counter',
    help: 'GPU energy consumption in joules since the Triton Server started',
    read: (gpu) => gpu.energyJoules,
  },
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

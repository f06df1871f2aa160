import { performance } from 'node:perf_hooks'
import { residentBytes } from '../base/resident-bytes.ts'
import type { ProcessCounters } from './figure-sampler.ts'

/** What this process has used, its threads included. Processes of Python models are not. */
export const processCounters = (connectionCount: () => number): ProcessCounters => ({
  cpuMicros: () => {
    const { user, system } = process.cpuUsage()
    return user + system
  },
  memoryBytes: () => residentBytes(),
  connectionCount,
  mainThreadReader: () => {
    let before = performance.eventLoopUtilization()
    return () => {
      const now = performance.eventLoopUtilization()
      const { utilization } = performance.eventLoopUtilization(now, before)
      before = now
      return utilization
    }
  },
})

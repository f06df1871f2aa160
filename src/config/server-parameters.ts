import { isPaddingParameter } from './batch-padding.ts'

/** Keys of `parameters` in config.pbtxt that the server acts on, whatever the backend; those of padding come to them. */
export const serverParameters = [
  'idle_unload_secs',
  'keep_warm',
  'lazy',
  'memory_bytes',
  'single_flight',
  'slo_ms',
] as const

const named: ReadonlySet<string> = new Set(serverParameters)

/** Whether a backend that does not know this parameter should keep quiet about it. */
export const isServerParameter = (key: string): boolean => named.has(key) || isPaddingParameter(key)

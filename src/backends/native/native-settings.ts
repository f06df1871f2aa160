// The settings of --backend-config=<name>,<key>=<value> that are for the host of a native backend. The backend itself gets all of them.

import { ServerError } from '../../base/server-error.ts'
import type { SharedMemoryLimits } from '../worker-process/tensor-regions.ts'

export type NativeSettings = {
  readonly memory: SharedMemoryLimits
  /** What a host may have of pinned memory, and of each GPU, for what its backend takes from Triton's memory manager. */
  readonly gpuMemory: { readonly pinnedBytes: number; readonly deviceBytes: number }
  /** Seconds that the finalization of an instance may take. */
  readonly stopSeconds: number
  /** One host for all models of the backend, in place of one for each model. */
  readonly isHostShared: boolean
  /** Who runs the backend: the host itself where it can, or Triton's own server in it. */
  readonly engine: 'host' | 'tritonserver'
  /** The file of Triton's server library; '': it is searched for. */
  readonly tritonServerLibrary: string
  /** With Triton's server: models that it loads too, so that the backend can call them. */
  readonly models: readonly string[]
}

const mebibyte = 1024 * 1024
const pageBytes = 4096

export function parseNativeSettings(backend: string, settings: ReadonlyMap<string, string>): NativeSettings {
  const flag = (key: string): string => `--backend-config=${backend},${key}`
  const count = (key: string, fallback: number, least = 0): number => {
    const text = settings.get(key)
    if (text === undefined) return fallback
    const value = Number(text)
    if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least) return value
    throw new ServerError('INVALID_ARG', `${flag(key)}: expected a whole number of at least ${least}, got '${text}'`)
  }
  const host = settings.get('host') ?? 'model'
  if (host !== 'model' && host !== 'shared') {
    throw new ServerError('INVALID_ARG', `${flag('host')}: expected 'model' or 'shared', got '${host}'`)
  }
  const engine = settings.get('engine') ?? 'host'
  if (engine !== 'host' && engine !== 'tritonserver') {
    throw new ServerError(
      'INVALID_ARG',
      `${flag('engine')}: expected 'host', 'tritonserver' or 'built-in', got '${engine}'`,
    )
  }
  const initialBytes = Math.ceil(count('shm-default-byte-size', mebibyte, mebibyte) / pageBytes) * pageBytes
  return {
    memory: {
      initialBytes,
      maxBytes: Math.max(count('shm-max-byte-size', 4096 * mebibyte, mebibyte), initialBytes),
      inlineBytes: count('shm-inline-byte-size', 8 * 1024),
      maxBytesFlag: flag('shm-max-byte-size'),
    },
    gpuMemory: {
      pinnedBytes: count('pinned-memory-byte-size', 256 * mebibyte),
      deviceBytes: count('cuda-memory-byte-size', 64 * mebibyte),
    },
    stopSeconds: count('stub-timeout-seconds', 30),
    isHostShared: host === 'shared',
    engine,
    tritonServerLibrary: settings.get('tritonserver-library') ?? '',
    models: (settings.get('models') ?? '').split(',').filter((name) => name !== ''),
  }
}

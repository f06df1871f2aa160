// The settings of --backend-config=<name>,<key>=<value> that are for the host of a native backend. The backend itself gets all of them.

import { ServerError } from '../../base/server-error.ts'
import type { SharedMemoryLimits } from '../worker-process/tensor-regions.ts'

export type NativeSettings = {
  readonly memory: SharedMemoryLimits
  /** What a host may have of pinned memory, and of each GPU, for what its backend takes from Triton's memory manager. */
  readonly gpuMemory: { readonly pinnedBytes: number; readonly deviceBytes: number }
  /** Seconds that the finalization of an instance may take. */
  readonly stopSeconds: number
  /** What has a host of its own: each model, each device that models of the backend run on, or the backend. */
  readonly host: Hosting
  /** Who runs the backend: the host itself where it can, or Triton's own server in it. */
  readonly engine: 'host' | 'tritonserver'
  /** The file of Triton's server library; '': it is searched for. */
  readonly tritonServerLibrary: string
  /** With Triton's server: models that it loads too, so that the backend can call them. */
  readonly models: readonly string[]
}

const hostings = ['model', 'device', 'shared'] as const
type Hosting = (typeof hostings)[number]

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
  const given = settings.get('host') ?? 'model'
  const host = hostings.find((each) => each === given)
  if (host === undefined) {
    throw new ServerError('INVALID_ARG', `${flag('host')}: expected 'model', 'device' or 'shared', got '${given}'`)
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
    host,
    engine,
    tritonServerLibrary: settings.get('tritonserver-library') ?? '',
    models: (settings.get('models') ?? '').split(',').filter((name) => name !== ''),
  }
}

// The settings of --backend-config=python,<key>=<value>.

import { ServerError } from '../../base/server-error.ts'
import type { SharedMemoryLimits } from '../worker-process/tensor-regions.ts'

export type PythonSettings = {
  readonly interpreter: string
  /** Null: tensors travel through the socket, as on systems without shared memory. */
  readonly memory: SharedMemoryLimits | null
  /** Seconds that `finalize` may take. The name is Triton's. */
  readonly stubTimeoutSeconds: number
  /** Where unpacked environments are kept; '' for the user's cache folder. */
  readonly environmentDirectory: string
  /** True with --triton-defaults: what Galatea takes beyond Triton is refused or left out, as Triton does. */
  readonly followsTriton: boolean
}

const mebibyte = 1024 * 1024
const minimumRegionBytes = mebibyte
const defaultMaxBytes = 4 * 1024 * mebibyte
/** Up to about this size the socket is faster than a block of shared memory (docs/internals/python-worker.md). */
const defaultInlineBytes = 8 * 1024

/** Triton's keys without a meaning here (queue sizes, thread pools, names of regions) are accepted and ignored. */
export function parsePythonSettings(settings: ReadonlyMap<string, string>, followsTriton = false): PythonSettings {
  const initialBytes = count(settings, 'shm-default-byte-size', minimumRegionBytes)
  if (initialBytes < minimumRegionBytes) {
    throw new ServerError(
      'INVALID_ARG',
      `shm-default-byte-size: expected at least ${minimumRegionBytes} bytes (1 MiB), got ${initialBytes}`,
    )
  }
  const maxBytes = count(settings, 'shm-max-byte-size', Math.max(defaultMaxBytes, initialBytes))
  if (maxBytes < initialBytes) {
    throw new ServerError(
      'INVALID_ARG',
      `shm-max-byte-size: expected at least shm-default-byte-size (${initialBytes}), got ${maxBytes}`,
    )
  }
  const rounded = Math.ceil(initialBytes / 4096) * 4096
  return {
    interpreter: settings.get('interpreter') ?? (process.platform === 'win32' ? 'python' : 'python3'),
    memory: wantsSharedMemory(settings)
      ? {
          initialBytes: rounded,
          maxBytes: Math.max(maxBytes, rounded),
          inlineBytes: count(settings, 'shm-inline-byte-size', defaultInlineBytes),
          maxBytesFlag: '--backend-config=python,shm-max-byte-size',
        }
      : null,
    stubTimeoutSeconds: count(settings, 'stub-timeout-seconds', 30),
    environmentDirectory: settings.get('environment-directory') ?? '',
    followsTriton,
  }
}

function count(settings: ReadonlyMap<string, string>, key: string, fallback: number): number {
  const text = settings.get(key)
  if (text === undefined) return fallback
  const value = Number(text)
  if (text.trim() !== '' && Number.isSafeInteger(value) && value >= 0) return value
  throw new ServerError('INVALID_ARG', `--backend-config=python,${key}: expected a whole number, got '${text}'`)
}

function wantsSharedMemory(settings: ReadonlyMap<string, string>): boolean {
  const text = settings.get('shared-memory') ?? 'auto'
  if (text !== 'auto' && text !== 'off') {
    throw new ServerError(
      'INVALID_ARG',
      `--backend-config=python,shared-memory: expected 'auto' or 'off', got '${text}'`,
    )
  }
  return text === 'auto'
}

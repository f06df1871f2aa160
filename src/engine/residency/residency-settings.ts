// What a model's parameters and the server's defaults say about when it is in memory.

import { ServerError } from '../../base/server-error.ts'
import type { ModelConfig } from '../../config/model-config.ts'

export type ResidencyDefaults = {
  /** `--model-lazy-load` */
  readonly isLazy: boolean
  /** `--model-idle-unload-secs`; 0: never. */
  readonly idleUnloadSecs: number
}

export type Residency = {
  /** Loaded on the first request for it. */
  readonly isLazy: boolean
  /** Once in memory it stays there, whoever else needs room. */
  readonly isKeptWarm: boolean
  /** Without a request for so long it leaves the memory; 0: it does not. */
  readonly idleUnloadNs: number
  /** What the model says it needs; null: it says nothing. */
  readonly declaredBytes: number | null
}

const units: Readonly<Record<string, number>> = { '': 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }

/** `1048576`, `512MiB`, `1.5 GiB`; null for anything else. */
export function parseByteCount(text: string): number | null {
  const match = /^(\d{1,16}(?:\.\d{1,6})?) ?(KiB|MiB|GiB|)$/.exec(text.trim())
  if (match === null) return null
  return Math.ceil(Number(match[1]) * (units[match[2] as string] as number))
}

/** Throws INVALID_ARG for a value that cannot be read: it would be ignored otherwise. */
export function residencyOf(config: ModelConfig, defaults: ResidencyDefaults): Residency {
  const text = (key: string): string | null => config.parameters.get(key)?.stringValue ?? null
  const refuse = (key: string, expected: string): ServerError =>
    new ServerError(
      'INVALID_ARG',
      `parameter '${key}' of model '${config.name}' must be ${expected}, got '${text(key)}'`,
    )
  const flag = (key: string, fallback: boolean): boolean => {
    const value = text(key)
    if (value === null) return fallback
    if (value !== 'true' && value !== 'false') throw refuse(key, "'true' or 'false'")
    return value === 'true'
  }
  const idleText = text('idle_unload_secs')
  const idleSecs = idleText === null ? defaults.idleUnloadSecs : Number(idleText)
  if (idleText === '' || !Number.isFinite(idleSecs) || idleSecs < 0)
    throw refuse('idle_unload_secs', 'a number of seconds')
  const bytesText = text('memory_bytes')
  const declaredBytes = bytesText === null ? null : parseByteCount(bytesText)
  if (bytesText !== null && declaredBytes === null) {
    throw refuse('memory_bytes', 'a number of bytes, or one with KiB, MiB or GiB behind it')
  }
  return {
    isLazy: flag('lazy', defaults.isLazy),
    isKeptWarm: flag('keep_warm', false),
    idleUnloadNs: idleSecs * 1e9,
    declaredBytes,
  }
}

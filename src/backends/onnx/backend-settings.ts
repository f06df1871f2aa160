// The settings of `--backend-config=onnxruntime,…` that are numbers or truth. Pure.

import { ServerError } from '../../base/server-error.ts'
import { zeroOrOne } from '../../config/parameter-rule.ts'

type Settings = ReadonlyMap<string, string>

type ThreadSettings = {
  /** Threads for runs off the main thread; 0: by the number of cores. */
  readonly maxThreads: number
  /** Null: every session has threads of its own. */
  readonly globalThreads: { readonly intraOp: number; readonly interOp: number } | null
  /** One line each, for the log. */
  readonly warnings: readonly string[]
}

const defaultMaxBatchSize = 4

/** What a model gets that can take batches and does not say how large. Throws INVALID_ARG for what is no number. */
export const defaultMaxBatchSizeIn = (settings: Settings): number =>
  settings.has('default-max-batch-size') ? integerOf(settings, 'default-max-batch-size') : defaultMaxBatchSize

const threadKeys = ['intra_op_thread_count', 'inter_op_thread_count'] as const

/** Throws INVALID_ARG for a value that is no number, or neither yes nor no. */
export function threadSettings(settings: Settings): ThreadSettings {
  const [intraOp = 0, interOp = 0] = threadKeys.map((key) => Math.max(0, integerOf(settings, key)))
  const isGlobal = truthOf(settings, 'enable-global-threadpool')
  const idle = isGlobal ? [] : threadKeys.filter((key) => settings.has(key))
  return {
    maxThreads: Math.max(0, integerOf(settings, 'max-threads')),
    globalThreads: isGlobal ? { intraOp, interOp } : null,
    warnings: idle.map(
      (key) =>
        `--backend-config=onnxruntime,${key} has no effect without --backend-config=onnxruntime,enable-global-threadpool=1; ` +
        `parameters { key: "${key}" } in config.pbtxt is for one model`,
    ),
  }
}

function integerOf(settings: Settings, key: string): number {
  const text = settings.get(key) ?? '0'
  if (/^\s*[+-]?\d{1,9}\s*$/.test(text)) return Number(text)
  throw refused(key, 'a whole number', text)
}

function truthOf(settings: Settings, key: string): boolean {
  const text = settings.get(key) ?? '0'
  const isOn = zeroOrOne.read(text)
  if (isOn === null) throw refused(key, '0 or 1', text)
  return isOn
}

const refused = (key: string, expected: string, got: string): ServerError =>
  new ServerError('INVALID_ARG', `--backend-config=onnxruntime,${key} must be ${expected}, got '${got}'`)

// Triton's parameters of an ONNX model, turned into what a session is made with. Pure.

import { ServerError } from '../../base/server-error.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { isServerParameter } from '../../config/server-parameters.ts'
import type { Place } from './onnx-session.ts'

export type SessionSettings = {
  /** 0: ONNX Runtime's own choice, one per physical core. */
  readonly intraOpThreads: number
  readonly interOpThreads: number
  readonly isParallel: boolean
  readonly graphLevel: 'disabled' | 'basic' | 'extended' | 'all'
  readonly hasMemoryArena: boolean
  readonly hasMemoryPattern: boolean
  /** `session.…` entries of ONNX Runtime's own configuration. */
  readonly sessionEntries: readonly (readonly [key: string, value: string])[]
  readonly runEntries: readonly (readonly [key: string, value: string])[]
  /** Absolute paths of libraries with custom operators, in the order of the configuration. */
  readonly customOpLibraries: readonly string[]
}

export type OnnxSettings = {
  readonly session: SessionSettings
  /** Null: by measured time. */
  readonly execution: Place | null
  /** 0: a run may take for ever. */
  readonly maxExecutionMs: number
  /** One line each, for the log. */
  readonly warnings: readonly string[]
}

const graphLevels = { '-1': 'basic', '0': 'all', '1': 'extended', '2': 'disabled' } as const

/** Triton's, for custom batchers: not ours to complain about. */
const foreignParameters = new Set(['TRITON_BATCH_STRATEGY_PATH', 'MAX_BATCH_VOLUME_BYTES'])

export function parseOnnxSettings(
  config: ModelConfig,
  options: { resolveLibrary?: (file: string) => string } = {},
): OnnxSettings {
  const reader = new ParameterReader(config)
  const shrinkage = reader.text('memory.enable_memory_arena_shrinkage')
  const deviceInitializers = reader.text('session.use_device_allocator_for_initializers')
  const session: SessionSettings = {
    intraOpThreads: reader.count('intra_op_thread_count'),
    interOpThreads: reader.count('inter_op_thread_count'),
    isParallel: reader.count('execution_mode', 1) === 1,
    graphLevel: graphLevel(config, reader),
    hasMemoryArena: reader.flag('enable_mem_arena', true),
    hasMemoryPattern: reader.flag('enable_mem_pattern', true),
    sessionEntries: deviceInitializers === null ? [] : [[sessionKey, deviceInitializers]],
    runEntries: shrinkage === null ? [] : [['memory.enable_memory_arena_shrinkage', shrinkage]],
    customOpLibraries: (config.modelOperations?.opLibraryFilename ?? []).map(
      options.resolveLibrary ?? ((file) => file),
    ),
  }
  const execution = reader.choice('execution', ['inline', 'offloaded'])
  const maxExecutionMs = reader.count('max_execution_ms', 0x7fffffff)
  acceleratorWarnings(config, reader)
  for (const key of config.parameters.keys()) {
    if (!reader.known.has(key) && !foreignParameters.has(key) && !isServerParameter(key)) {
      reader.warnings.push(`parameter '${key}' is not known to the onnxruntime backend and is ignored`)
    }
  }
  return { session, execution, maxExecutionMs, warnings: reader.warnings }
}

const sessionKey = 'session.use_device_allocator_for_initializers'

function graphLevel(config: ModelConfig, reader: ParameterReader): SessionSettings['graphLevel'] {
  const level = config.optimization?.graph?.level ?? 0
  const known = graphLevels[String(level) as keyof typeof graphLevels] as SessionSettings['graphLevel'] | undefined
  if (known !== undefined) return known
  reader.warnings.push(
    `optimization.graph.level ${level} is not known (-1 basic, 0 all, 1 extended, 2 disabled); all optimisations are on`,
  )
  return 'all'
}

function acceleratorWarnings(config: ModelConfig, reader: ParameterReader): void {
  const accelerators = config.optimization?.executionAccelerators
  for (const { name } of accelerators?.cpuExecutionAccelerator ?? []) {
    reader.warnings.push(
      `cpu_execution_accelerator '${name}' is not in this build; the model runs on the plain CPU provider`,
    )
  }
  for (const { name } of accelerators?.gpuExecutionAccelerator ?? []) {
    reader.warnings.push(`gpu_execution_accelerator '${name}' needs a GPU build; the model runs on the CPU`)
  }
}

class ParameterReader {
  readonly known = new Set<string>()
  readonly warnings: string[] = []
  readonly #config: ModelConfig

  constructor(config: ModelConfig) {
    this.#config = config
  }

  text(key: string): string | null {
    this.known.add(key)
    return this.#config.parameters.get(key)?.stringValue ?? null
  }

  count(key: string, limit = 1024): number {
    const text = this.text(key)
    if (text === null) return 0
    const value = Number(text)
    if (/^\d+$/.test(text.trim()) && value <= limit) return value
    throw this.#refusal(key, `a whole number from 0 to ${limit}`, text)
  }

  flag(key: string, byDefault: boolean): boolean {
    const text = this.text(key)
    if (text === null) return byDefault
    if (/^(1|true)$/i.test(text.trim())) return true
    if (/^(0|false)$/i.test(text.trim())) return false
    throw this.#refusal(key, `'0' or '1'`, text)
  }

  choice<T extends string>(key: string, allowed: readonly T[]): T | null {
    const text = this.text(key)
    if (text === null) return null
    const found = allowed.find((word) => word === text.trim())
    if (found !== undefined) return found
    throw this.#refusal(key, allowed.map((word) => `'${word}'`).join(' or '), text)
  }

  #refusal(key: string, expected: string, got: string): ServerError {
    return new ServerError(
      'INVALID_ARG',
      `parameter '${key}' of model '${this.#config.name}' must be ${expected}, got '${got}'`,
    )
  }
}

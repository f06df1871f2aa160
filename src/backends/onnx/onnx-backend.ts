// The `onnxruntime` backend: finds the model file, creates a session, completes and checks the configuration.

import { stat } from 'node:fs/promises'
import path from 'node:path'
import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Backend, LoadedModel, ModelFiles, ModelVersionSource } from '../../model/backend.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { readOnnxFile } from '../../onnx-file/onnx-file.ts'
import { workFollowsValues } from '../../onnx-file/value-driven-work.ts'
import { completeConfig, isComplete } from './auto-complete.ts'
import { defaultInlineLimitUs, PlaceByTime } from './execution-place.ts'
import { describeLoadError } from './load-error.ts'
import { OnnxModel } from './onnx-model.ts'
import type { OnnxBinding, OnnxSession } from './onnx-session.ts'
import { openBinding } from './open-binding.ts'
import { parseOnnxSettings, type OnnxSettings, type Place } from './session-settings.ts'
import { validateSignature } from './validate-signature.ts'

const defaultMaxBatchSize = 4
/** A session that was created to complete a configuration is kept for this time, for the load that follows. */
const keepSessionNs = 30e9

type KeptSession = { readonly key: string; readonly session: OnnxSession; readonly cancel: Cancel }

export class OnnxBackend implements Backend {
  readonly name = 'onnxruntime'
  readonly #clock: Clock
  readonly #log: Log
  readonly #settings: ReadonlyMap<string, string>
  #binding: Promise<OnnxBinding> | null = null
  /** Sessions by model file. `complete` puts them here and `load` takes them, so that no model is read twice. */
  readonly #kept = new Map<string, KeptSession>()

  /** `settings` are Triton's `--backend-config` entries of this backend and the global ones. */
  constructor(dependencies: { clock: Clock; log: Log }, settings: ReadonlyMap<string, string> = new Map()) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('onnx-backend.ts')
    this.#settings = settings
  }

  async complete(draft: ModelConfig, files: ModelFiles): Promise<ModelConfig> {
    if (isComplete(draft)) return draft
    const file = await findModelFile(draft, files)
    const { session: settings } = this.#parse(draft, files)
    const session = await this.#createSession(file, settings)
    await this.#forget(file)
    const cancel = this.#clock.after(keepSessionNs, () => void this.#forget(file))
    this.#kept.set(file, { key: JSON.stringify(settings), session, cancel })
    return completeConfig(draft, session, this.#defaultMaxBatchSize())
  }

  async load(source: ModelVersionSource): Promise<LoadedModel> {
    const { config, files, name } = source
    const file = await findModelFile(config, files)
    const settings = this.#parse(config, files)
    for (const warning of settings.warnings) this.#log.warning(warning, { model: name })
    const session = (await this.#takeKept(file, settings)) ?? (await this.#createSession(file, settings.session))
    try {
      validateSignature(config, session)
      const place = new PlaceByTime(defaultInlineLimitUs, await fixedPlace(file, config, settings, session))
      return new OnnxModel({ clock: this.#clock }, source, session, { place, maxExecutionMs: settings.maxExecutionMs })
    } catch (reason) {
      await session.close()
      throw reason
    }
  }

  async close(): Promise<void> {
    for (const file of this.#kept.keys()) await this.#forget(file)
    const binding = this.#binding
    this.#binding = null
    await (await binding)?.close()
  }

  #parse(config: ModelConfig, files: ModelFiles): OnnxSettings {
    return parseOnnxSettings(config, { resolveLibrary: (file) => path.resolve(files.modelDirectory, file) })
  }

  #defaultMaxBatchSize(): number {
    const text = this.#settings.get('default-max-batch-size')
    return text === undefined || !/^\d+$/.test(text) ? defaultMaxBatchSize : Number(text)
  }

  async #createSession(file: string, settings: OnnxSettings['session']): Promise<OnnxSession> {
    this.#binding ??= openBinding({ clock: this.#clock, log: this.#log }, this.#settings)
    const binding = await this.#binding
    try {
      return await binding.createSession(file, settings)
    } catch (reason) {
      throw describeLoadError(reason, file, await readOnnxFile(file).catch(() => null))
    }
  }

  async #takeKept(file: string, settings: OnnxSettings): Promise<OnnxSession | null> {
    const kept = this.#kept.get(file)
    if (kept === undefined) return null
    if (kept.key !== JSON.stringify(settings.session)) {
      await this.#forget(file)
      return null
    }
    this.#kept.delete(file)
    kept.cancel()
    return kept.session
  }

  async #forget(file: string): Promise<void> {
    const kept = this.#kept.get(file)
    this.#kept.delete(file)
    kept?.cancel()
    await kept?.session.close()
  }
}

/**
 * Null: the measured time decides. When the time of a model depends on the values of its inputs and not on their size,
 * past runs say nothing, so the model must not run on the main thread.
 */
async function fixedPlace(
  file: string,
  config: ModelConfig,
  settings: OnnxSettings,
  session: OnnxSession,
): Promise<Place | null> {
  if (!session.canRunInline) return 'offloaded'
  if (settings.execution !== null) return settings.execution
  const header = await readOnnxFile(file).catch(() => null)
  if (header === null) return 'offloaded'
  // An input with an initializer is a constant unless the configuration lets requests bring it.
  const given = [...header.inputs, ...config.input]
  return workFollowsValues(
    header.nodes,
    given.map(({ name }) => name),
  )
    ? 'offloaded'
    : null
}

/** Triton's rule: the file, or a folder of that name with `model.onnx` in it. */
export async function findModelFile(config: ModelConfig, files: ModelFiles): Promise<string> {
  const fileName = config.defaultModelFilename === '' ? 'model.onnx' : config.defaultModelFilename
  let file = path.join(files.versionDirectory, fileName)
  if (!file.startsWith(path.join(files.versionDirectory, path.sep))) {
    const text = `default_model_filename '${fileName}' of model '${config.name}' must name a file inside the version folder`
    throw new ServerError('INVALID_ARG', text)
  }
  const found = await stat(file).catch(() => null)
  if (found?.isDirectory() === true) {
    file = path.join(file, 'model.onnx')
    if ((await stat(file).catch(() => null))?.isFile() === true) return file
  } else if (found !== null) return file
  throw new ServerError('UNAVAILABLE', `unable to find '${file}' for model instance '${config.name}'`)
}

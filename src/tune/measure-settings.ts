// Loads the model with a setting and measures one load on it.

import { messageOf } from '../base/server-error.ts'
import type { InferenceClient } from '../client/inference-client.ts'
import { generatedStep } from '../perf/generated-input.ts'
import { readInputFiles } from '../perf/input-files.ts'
import { InputDataError, type InputStreams } from '../perf/input-step.ts'
import { readModel, type ModelUnderTest } from '../perf/model-under-test.ts'
import type { PerfOptions } from '../perf/perf-options.ts'
import { Profiler, type LevelResult } from '../perf/profiler.ts'
import { setupOf, validateForModel } from '../perf/run-perf.ts'
import type { MeasuredPoint, TuneStep } from './find-setting.ts'
import { configWith, keyOf, settingOf, settingText, type Setting } from './setting.ts'
import { TuneStopped } from './tune-stopped.ts'
import type { TunedServer } from './tuned-server.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** For a slow model a window is as long as this many of its requests. */
const requestsPerWindow = 10
const longestWindowMs = 5000
const fewestPerWindow = 2
const probeRequests = 5
/** The first seconds of a server are its slowest: it compiles code and allocates memory. */
const warmUpMs = 1000
/** The best setting is measured this much longer. */
const confirmFactor = 3
const liveTimeoutMs = 5000

export class SettingMeter {
  readonly #client: InferenceClient
  readonly #server: TunedServer
  readonly #config: JsonObject
  readonly #options: PerfOptions
  readonly #latencyLimitMs: number
  readonly #interrupted: Promise<void>
  readonly #onTick: (window: number, done: number) => void
  #model: ModelUnderTest | null = null
  #streams: InputStreams = []
  #intervalMs: number
  /** The setting that is loaded; '' for the repository's own. */
  #loaded = ''

  constructor(
    client: InferenceClient,
    server: TunedServer,
    config: JsonObject,
    options: PerfOptions,
    latencyLimitMs: number,
    interrupted: Promise<void>,
    onTick: (window: number, done: number) => void,
  ) {
    this.#client = client
    this.#server = server
    this.#config = config
    this.#options = options
    this.#latencyLimitMs = latencyLimitMs
    this.#intervalMs = options.measurement.intervalMs
    this.#interrupted = interrupted
    this.#onTick = onTick
  }

  /** The longest time for confirming the best and the present setting. The search must leave this time. */
  get confirmMs(): number {
    return 2 * this.#intervalMs * confirmFactor * this.#options.measurement.maxTrials
  }

  async measure(step: TuneStep, setting: Setting, concurrency: number): Promise<MeasuredPoint> {
    const point = { step, setting, concurrency }
    try {
      await this.#load(setting)
      const model = (this.#model ??= await this.#prepare())
      const { client, server } = await this.#runTwice(model, concurrency, step === 'confirm' ? confirmFactor : 1)
      await this.#validateUndisturbed(setting)
      if (client.failedCount > 0) throw new Error(client.failures[0]?.[0] ?? 'requests failed')
      return {
        ...point,
        inferPerSecond: client.inferPerSecond,
        latencyMs: (client.percentilesUs.get(this.#options.measurement.percentile ?? 99) ?? client.averageUs) / 1000,
        averageBatch:
          server === null || server.executionCount === 0 ? 0 : server.inferenceCount / server.executionCount,
        memoryMib: await this.#server.memoryMib(),
        failure: '',
      }
    } catch (reason) {
      if (reason instanceof TuneStopped || reason instanceof InputDataError) throw reason
      await this.#validateAlive()
      return { ...point, inferPerSecond: 0, latencyMs: 0, averageBatch: 0, memoryMib: null, failure: failureOf(reason) }
    }
  }

  /** Loads the model as the repository has it. */
  async restore(): Promise<void> {
    if (this.#loaded === '') return
    await loadFromRepository(this.#client, this.#options.model, this.#config)
    this.#loaded = ''
  }

  async #load(setting: Setting): Promise<void> {
    const key = keyOf(setting)
    if (this.#loaded === key) return
    // From now on the model is not as the repository has it, also when the load fails.
    this.#loaded = 'unknown'
    await this.#client.loadModel(this.#options.model, { config: configWith(this.#config, setting) })
    const actual = await this.#actual()
    if (keyOf(actual) !== key) {
      throw new Error(`the server makes it ${settingText(actual)}: the model asks for that itself`)
    }
    this.#loaded = key
  }

  async #actual(): Promise<Setting> {
    return settingOf(await this.#client.modelConfig(this.#options.model))
  }

  async #validateUndisturbed(setting: Setting): Promise<void> {
    const actual = await this.#actual()
    if (keyOf(actual) === keyOf(setting)) return
    throw new TuneStopped(
      `somebody else loaded '${this.#options.model}' meanwhile (${settingText(actual)}): another galatea tune, or a change of the ` +
        `repository. Only one at a time can measure it`,
    )
  }

  async #validateAlive(): Promise<void> {
    try {
      if (await this.#client.isLive({ timeoutMs: liveTimeoutMs })) return
    } catch {
      // The error below says it.
    }
    throw new TuneStopped(`the server at ${this.#server.url} no longer answers${this.#server.lastWords()}`)
  }

  /** Requests are the same for every setting, so they are made once. A slow model gets longer windows. */
  async #prepare(): Promise<ModelUnderTest> {
    const { model: name, version, input, seed } = this.#options
    const model = await readModel(this.#client, name, version, [])
    try {
      validateForModel(this.#options, model)
    } catch (reason) {
      throw new TuneStopped(messageOf(reason))
    }
    this.#streams =
      input.paths.length > 0
        ? readInputFiles(input.paths, model, input.shapes)
        : [[generatedStep(model.inputs, input, seed)]]
    const probe = await this.#profile(model, { ...this.#options, requestCount: probeRequests }, 1)
    const requestMs = probe.client.averageUs / 1000
    this.#intervalMs = windowMsFor(this.#intervalMs, requestMs)
    const warmUpCount = Math.floor(warmUpMs / Math.max(0.01, requestMs))
    if (warmUpCount > 0) await this.#profile(model, { ...this.#options, requestCount: warmUpCount }, 1)
    return model
  }

  /** Measures again when the windows do not agree, because a disturbance must not end a climb. */
  async #runTwice(model: ModelUnderTest, concurrency: number, factor: number): Promise<LevelResult> {
    const first = await this.#run(model, concurrency, factor)
    if (first.isStable || first.isInterrupted || first.latencyUs <= this.#latencyLimitMs * 1000) return first
    const second = await this.#run(model, concurrency, factor)
    return second.latencyUs < first.latencyUs ? second : first
  }

  #run(model: ModelUnderTest, concurrency: number, factor: number): Promise<LevelResult> {
    const measurement = { ...this.#options.measurement, intervalMs: this.#intervalMs * factor }
    return this.#profile(model, { ...this.#options, measurement }, concurrency)
  }

  async #profile(model: ModelUnderTest, options: PerfOptions, concurrency: number): Promise<LevelResult> {
    const setup = setupOf(options, model, this.#streams, null)
    const tick = ({ window, done }: { readonly window: number; readonly done: number }): void =>
      this.#onTick(window, done)
    const events = { onWindow: () => undefined, onTick: tick }
    const profiler = new Profiler(this.#client, model, options, setup, events, this.#interrupted)
    try {
      return await profiler.measure(concurrency)
    } finally {
      await profiler.close()
    }
  }
}

/** At least the wanted length; longer for a slow model up to a limit, and always long enough for a few answers. */
export const windowMsFor = (askedMs: number, requestMs: number): number =>
  Math.ceil(Math.max(askedMs, Math.min(longestWindowMs, requestMs * requestsPerWindow), requestMs * fewestPerWindow))

/**
 * A load alone would change nothing: a server keeps the configuration of a load request while the files are the same.
 * `config` is used when the repository's model can no longer be loaded, so that the server still has a model.
 */
export async function loadFromRepository(client: InferenceClient, model: string, config: JsonObject): Promise<void> {
  await client.unloadModel(model)
  try {
    await client.loadModel(model)
  } catch (reason) {
    await client.loadModel(model, { config })
    throw reason
  }
}

/** When every request failed, the first line is a headline, and the second is the first error. */
function failureOf(reason: unknown): string {
  const [headline = '', first = headline] = messageOf(reason).trim().split('\n')
  if (headline.startsWith('No valid requests'))
    return 'no request was answered in the time of its windows (--window-ms)'
  return first.trim().replace(/ \(\d+ times\)$/, '').replaceAll(/\s+/g, ' ') // prettier-ignore
}

// Loads the model with a setting and measures one load on it.

import { messageOf } from '../base/server-error.ts'
import type { InferenceClient } from '../client/inference-client.ts'
import { generatedStep } from '../perf/generated-input.ts'
import { readInputFiles } from '../perf/input-files.ts'
import type { InputStreams } from '../perf/input-step.ts'
import { readModel, type ModelUnderTest } from '../perf/model-under-test.ts'
import type { PerfOptions } from '../perf/perf-options.ts'
import { Profiler, type LevelResult } from '../perf/profiler.ts'
import { setupOf } from '../perf/run-perf.ts'
import type { MeasuredPoint, TuneStep } from './find-setting.ts'
import { configWith, keyOf, type Setting } from './setting.ts'
import type { TunedServer } from './tuned-server.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** Windows of a model slower than expected are as long as this many of its requests. */
const requestsPerWindow = 10
const longestWindowMs = 5000
const probeRequests = 5
/** The best setting is looked at for this much longer. */
const confirmFactor = 3

export class SettingMeter {
  readonly #client: InferenceClient
  readonly #server: TunedServer
  readonly #config: JsonObject
  readonly #options: PerfOptions
  readonly #interrupted: Promise<void>
  readonly #onTick: (done: number) => void
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
    interrupted: Promise<void>,
    onTick: (done: number) => void,
  ) {
    this.#client = client
    this.#server = server
    this.#config = config
    this.#options = options
    this.#intervalMs = options.measurement.intervalMs
    this.#interrupted = interrupted
    this.#onTick = onTick
  }

  /** How long a confirmation takes at most: time that the search has to leave. */
  get confirmMs(): number {
    return this.#intervalMs * confirmFactor * this.#options.measurement.maxTrials
  }

  async measure(step: TuneStep, setting: Setting, concurrency: number): Promise<MeasuredPoint> {
    const point = { step, setting, concurrency }
    try {
      await this.#load(setting)
      const model = (this.#model ??= await this.#prepare())
      const { client, server } = await this.#run(model, concurrency, step === 'confirm' ? confirmFactor : 1)
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
      const failure = messageOf(reason).trim().replaceAll(/\s+/g, ' ')
      return { ...point, inferPerSecond: 0, latencyMs: 0, averageBatch: 0, memoryMib: null, failure }
    }
  }

  /** The model as the repository has it. */
  async restore(): Promise<void> {
    if (this.#loaded === '') return
    await this.#client.loadModel(this.#options.model)
    this.#loaded = ''
  }

  async #load(setting: Setting): Promise<void> {
    const key = keyOf(setting)
    if (this.#loaded === key) return
    await this.#client.loadModel(this.#options.model, { config: configWith(this.#config, setting) })
    this.#loaded = key
  }

  /** Requests stay the same whatever the setting, so they are made once. A slow model gets longer windows. */
  async #prepare(): Promise<ModelUnderTest> {
    const { model: name, version, input, seed } = this.#options
    const model = await readModel(this.#client, name, version, [])
    this.#streams =
      input.paths.length > 0
        ? readInputFiles(input.paths, model, input.shapes)
        : [[generatedStep(model.inputs, input, seed)]]
    const probe = await this.#profile(model, { ...this.#options, requestCount: probeRequests }, 1)
    const needed = (probe.client.averageUs / 1000) * requestsPerWindow
    this.#intervalMs = Math.min(longestWindowMs, Math.max(this.#intervalMs, Math.ceil(needed)))
    return model
  }

  #run(model: ModelUnderTest, concurrency: number, factor: number): Promise<LevelResult> {
    const measurement = { ...this.#options.measurement, intervalMs: this.#intervalMs * factor }
    return this.#profile(model, { ...this.#options, measurement }, concurrency)
  }

  async #profile(model: ModelUnderTest, options: PerfOptions, concurrency: number): Promise<LevelResult> {
    const setup = setupOf(options, model, this.#streams, null)
    const events = { onWindow: () => undefined, onTick: ({ done }: { readonly done: number }) => this.#onTick(done) }
    const profiler = new Profiler(this.#client, model, options, setup, events, this.#interrupted)
    try {
      return await profiler.measure(concurrency)
    } finally {
      await profiler.close()
    }
  }
}

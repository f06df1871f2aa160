// A whole run: a server, the search, the report, and the change where it is wanted.

import { writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { messageOf } from '../base/server-error.ts'
import type { InferenceClient } from '../client/inference-client.ts'
import { readPerfOptions, type PerfOptions } from '../perf/perf-options.ts'
import { connect } from '../perf/run-perf.ts'
import { applyChange, planChange, type ConfigChange } from './apply-config.ts'
import { findSetting, type MeasurePoint, type TuneLimits, type TuneVerdict } from './find-setting.ts'
import { SettingMeter } from './measure-settings.ts'
import { NotTunable, planSearch, type TunePlan } from './search-space.ts'
import { configWith, settingOf, settingText } from './setting.ts'
import { TuneState } from './tune-state.ts'
import { tunePage } from './tune-page.ts'
import { pointText, tableText, verdictText } from './tune-text.ts'
import type { TuneOptions } from './tune-options.ts'
import { runningServer, startServer, type TunedServer } from './tuned-server.ts'

export type TuneHost = {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  /** Shows how far a measurement is; '' clears it. Null where nobody looks. */
  readonly progress: ((text: string) => void) | null
  readonly interrupted: Promise<void>
  readonly version: string
  readonly command: string
  /** What starts a server: `bin/galatea.js`. */
  readonly launcher: string
}

/** Windows of one point: three that agree, or this many. */
const maxWindows = 5
const stabilityPercent = 15
/** Right after a model is loaded its first requests are slow. */
const warmUpRequests = 20

/** Resolves with the exit status. */
export async function runTune(options: TuneOptions, host: TuneHost): Promise<number> {
  try {
    const server =
      options.url === ''
        ? await startServer({ ...options, launcher: host.launcher, flags: options.serverFlags })
        : runningServer(options.url, options.metricsUrl)
    try {
      return await new TuneRun(options, host, server).run()
    } finally {
      await server.close()
    }
  } catch (reason) {
    if (!(reason instanceof NotTunable)) throw reason
    host.stderr(`galatea tune: ${reason.message}\n`)
    return 1
  }
}

class TuneRun {
  readonly #options: TuneOptions
  readonly #host: TuneHost
  readonly #server: TunedServer
  readonly #limits: TuneLimits
  readonly #startedMs = performance.now()
  #isInterrupted = false

  constructor(options: TuneOptions, host: TuneHost, server: TunedServer) {
    this.#options = options
    this.#host = host
    this.#server = server
    this.#limits = { latencyMs: options.latencyMs, memoryMib: options.memoryMib }
    void host.interrupted.then(() => (this.#isInterrupted = true))
  }

  async run(): Promise<number> {
    const { model } = this.#options
    const client = await connect(this.#perfOptions([]))
    try {
      const config = await client.modelConfig(model)
      const plan = planSearch(config, this.#options)
      await this.#validateMemory()
      await this.#validateControl(client, config)
      return await this.#search(client, config, plan)
    } finally {
      await client.close()
    }
  }

  async #search(client: InferenceClient, config: Readonly<Record<string, unknown>>, plan: TunePlan): Promise<number> {
    const { stdout, progress, interrupted } = this.#host
    const { percentile, model, stateFile } = this.#options
    const options = this.#perfOptions(plan.perfArgs)
    const current = settingOf(config)
    stdout(`Tuning '${model}' at ${this.#server.url}; now: ${settingText(current)}\n`)
    for (const note of plan.notes) stdout(`- ${note}\n`)
    const meter = new SettingMeter(client, this.#server, config, options, interrupted, (done) =>
      progress?.(`${done} requests`),
    )
    const about = createHash('sha256').update(JSON.stringify([model, config, options.input.paths, [...options.input.shapes], options.batchSize, options.protocol, percentile])).digest('hex') // prettier-ignore
    const state = this.#options.isResumed ? TuneState.resume(stateFile, about) : TuneState.create(stateFile, about)
    if (state.points.length > 0) stdout(`- ${state.points.length} points were measured before\n`)
    let verdict: TuneVerdict
    try {
      verdict = await findSetting(current, plan.space, this.#limits, this.#measure(meter, state))
    } finally {
      progress?.('')
      if (!this.#server.isOwn) await meter.restore()
    }
    if (this.#isInterrupted) {
      stdout(`Interrupted. Go on with: ${this.#host.command}${this.#options.isResumed ? '' : ' --resume'}\n`)
      return 1
    }
    return this.#conclude(client, config, state, verdict)
  }

  #measure(meter: SettingMeter, state: TuneState): MeasurePoint {
    const deadlineMs = this.#startedMs + this.#options.minutes * 60_000
    return async (step, setting, concurrency) => {
      const known = state.find({ step, setting, concurrency })
      if (known !== null) return known
      if (this.#isInterrupted) return null
      if (step !== 'confirm' && performance.now() > deadlineMs - meter.confirmMs) return null
      const point = await meter.measure(step, setting, concurrency)
      // Cut off in the middle: it would be wrong.
      if (this.#isInterrupted) return null
      state.add(point)
      this.#host.progress?.('')
      this.#host.stdout(pointText(point, performance.now() - this.#startedMs, this.#options.percentile, this.#limits))
      return point
    }
  }

  async #conclude(
    client: InferenceClient,
    config: Readonly<Record<string, unknown>>,
    state: TuneState,
    verdict: TuneVerdict,
  ): Promise<number> {
    const { stdout, stderr, version, command } = this.#host
    const { percentile, model, repository, reportFile, isApplied, isStateKept } = this.#options
    stdout(`\n${tableText(state.points, percentile, this.#limits)}\n${verdictText(verdict, percentile)}`)
    const { best } = verdict
    const change = best === null || repository === '' ? null : planChange(repository, model, config, best.setting)
    if (change !== null) stdout(change.diff === '' ? `\n${change.file} is right as it is.\n` : `\n${change.diff}`)
    if (reportFile !== '') {
      const date = `${new Date().toISOString().replace('T', ' ').slice(0, 16)} UTC`
      const facts = { model, command, date, version, percentile, diff: change?.diff ?? '' }
      writeFileSync(reportFile, tunePage(state.points, verdict, this.#limits, facts))
      stdout(`\nReport: ${reportFile}\n`)
    }
    if (!isStateKept) state.remove()
    if (best === null) {
      stderr('galatea tune: nothing that was tried meets the limits\n')
      return 1
    }
    if (change !== null && change.diff !== '') {
      if (isApplied) await this.#apply(change, client)
      else stdout(`\nTo have it written: add --apply.\n`)
    } else if (change === null) {
      stdout(`\nIn config.pbtxt:\n${fragmentText(configWith(config, best.setting))}`)
    }
    return 0
  }

  async #apply(change: ConfigChange, client: InferenceClient): Promise<void> {
    await applyChange(change, () => client.loadModel(this.#options.model))
    const where = this.#server.isOwn ? 'and the model loads with it' : 'and the model is loaded with it'
    this.#host.stdout(`\nWritten: ${change.file}, ${where}.\n`)
  }

  async #validateMemory(): Promise<void> {
    if (!Number.isFinite(this.#limits.memoryMib) || (await this.#server.memoryMib()) !== null) return
    throw new NotTunable(
      "--max-memory: the server's memory cannot be seen; --metrics-url must lead to metrics with process_resident_memory_bytes, " +
        'or let tune start the server (--model-repository without -u)',
    )
  }

  /** Better now than after a minute: loads its configuration again as it is. */
  async #validateControl(client: InferenceClient, config: Readonly<Record<string, unknown>>): Promise<void> {
    if (this.#server.isOwn) return
    try {
      await client.loadModel(this.#options.model, { config: configWith(config, settingOf(config)) })
      await client.loadModel(this.#options.model)
    } catch (reason) {
      throw new NotTunable(
        `the server does not load models on request (${messageOf(reason)}). Start it with --model-control-mode=explicit ` +
          `--load-model=${this.#options.model}, or let tune start one: --model-repository PATH without -u`,
      )
    }
  }

  #perfOptions(more: readonly string[]): PerfOptions {
    const { model, protocol, windowMs, percentile, batchSize, perfArgs } = this.#options
    const args = ['-m', model, '-u', this.#server.url, '-i', protocol, '-b', String(batchSize)]
    args.push('-p', String(windowMs), '-r', String(maxWindows), '-s', String(stabilityPercent))
    args.push('--percentile', String(Math.round(percentile)), '--warmup-request-count', String(warmUpRequests))
    const read = readPerfOptions([...args, ...perfArgs, ...more])
    if (read.kind !== 'run') throw new Error('the options of the load generator are wrong')
    return read.options
  }
}

function fragmentText(config: Readonly<Record<string, unknown>>): string {
  const { maxBatchSize, delayUs, instances } = settingOf(config)
  const lines = maxBatchSize === 0 ? [] : [`max_batch_size: ${maxBatchSize}`]
  if (delayUs !== null) lines.push(`dynamic_batching { max_queue_delay_microseconds: ${delayUs} }`)
  return `${[...lines, `instance_group { count: ${instances} }`].join('\n')}\n`
}

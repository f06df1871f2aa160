// A whole run: a server, the search, the report, and, if wanted, the change.

import { createHash } from 'node:crypto'
import { closeSync, openSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { messageOf } from '../base/server-error.ts'
import { startHint } from '../base/start-hint.ts'
import type { InferenceClient } from '../client/inference-client.ts'
import { InputDataError } from '../perf/input-step.ts'
import { readPerfOptions, type PerfOptions } from '../perf/perf-options.ts'
import { connect } from '../perf/run-perf.ts'
import { applyChange, planChange, whyNotWritable, type ConfigChange } from './apply-config.ts'
import { findSetting, type MeasurePoint, type TuneLimits, type TuneVerdict } from './find-setting.ts'
import { loadFromRepository, SettingMeter } from './measure-settings.ts'
import { NotTunable, planSearch, type TunePlan } from './search-space.ts'
import { configWith, keyOf, settingOf, settingText, type Setting } from './setting.ts'
import { isLanguageModel, refuseFlags, tuneLanguage } from './tune-language.ts'
import type { TuneOptions } from './tune-options.ts'
import { tunePage } from './tune-page.ts'
import { filesMark, TuneState } from './tune-state.ts'
import { TuneStopped } from './tune-stopped.ts'
import { barsText, pointText, tableText, verdictText } from './tune-text.ts'
import { runningServer, startServer, type TunedServer } from './tuned-server.ts'

type JsonObject = Readonly<Record<string, unknown>>

type TuneHost = {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  /** Shows the progress of a measurement; '' clears it. Null when there is no terminal. */
  readonly progress: ((text: string) => void) | null
  readonly interrupted: Promise<void>
  readonly version: string
  readonly command: string
  /** The command that continues an interrupted run. */
  readonly resumeCommand: string
  /** The program that starts a server: `bin/galatea.js`. */
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
    await validateFiles(options)
    const server =
      options.url === ''
        ? await startServer({
            ...options,
            launcher: host.launcher,
            flags: options.serverFlags,
            interrupted: host.interrupted,
          })
        : runningServer(options.url, options.metricsUrl)
    try {
      return await new TuneRun(options, host, server).run()
    } finally {
      await server.close()
    }
  } catch (reason) {
    if (!(reason instanceof NotTunable || reason instanceof TuneStopped || reason instanceof InputDataError))
      throw reason
    host.stderr(`galatea tune: ${reason.message}\n`)
    return 1
  }
}

/** Checked now and not after minutes of measuring. */
async function validateFiles({ isApplied, repository, model, reportFile }: TuneOptions): Promise<void> {
  if (isApplied) {
    const reason = await whyNotWritable(repository, model)
    if (reason !== '') throw new NotTunable(`--apply: config.pbtxt of '${model}' cannot be written: ${reason}`)
  }
  if (reportFile === '') return
  try {
    closeSync(openSync(reportFile, 'a'))
  } catch (reason) {
    throw new NotTunable(`--report: ${messageOf(reason)}`)
  }
}

class TuneRun {
  readonly #options: TuneOptions
  readonly #host: TuneHost
  readonly #server: TunedServer
  readonly #limits: TuneLimits
  readonly #startedMs = performance.now()
  #isInterrupted = false
  /** The present measurement, for the progress line. */
  #underWay = ''

  constructor(options: TuneOptions, host: TuneHost, server: TunedServer) {
    this.#options = options
    this.#host = host
    this.#server = server
    this.#limits = { latencyMs: options.latencyMs, memoryMib: options.memoryMib }
    void host.interrupted.then(() => (this.#isInterrupted = true))
  }

  async run(): Promise<number> {
    const perf = this.#perfOptions([])
    const client = await connect(perf)
    try {
      const served = await this.#served(client)
      refuseFlags(this.#options, isLanguageModel(served))
      if (isLanguageModel(served)) {
        await this.#validateMemory()
        await this.#validateControl(client, served)
        const isInterrupted = (): boolean => this.#isInterrupted
        return await tuneLanguage(client, this.#server, this.#options, perf.headers, { ...this.#host, isInterrupted })
      }
      const plan = planSearch(served, this.#options)
      await this.#validateMemory()
      await this.#validateControl(client, served)
      // The model was loaded again and its configuration may have changed: the repository's one is tuned.
      const config = this.#server.isOwn ? served : await client.modelConfig(this.#options.model)
      return await this.#search(client, config, this.#server.isOwn ? plan : planSearch(config, this.#options))
    } finally {
      await client.close()
    }
  }

  async #served(client: InferenceClient): Promise<JsonObject> {
    const { model } = this.#options
    try {
      return await client.modelConfig(model)
    } catch (reason) {
      const hint = startHint(messageOf(reason), '-u <host:port>')
      if (hint !== '') throw new NotTunable(`${messageOf(reason)}${hint}`)
      const what = `the server at ${this.#server.url} has no configuration of '${model}' (${messageOf(reason)})`
      throw new NotTunable(
        `${what}. ${this.#server.isOwn ? 'See: galatea check' : 'Is that its address, and is the model loaded?'}`,
      )
    }
  }

  async #search(client: InferenceClient, config: JsonObject, plan: TunePlan): Promise<number> {
    const { stdout, progress, interrupted } = this.#host
    const { model, stateFile, isResumed } = this.#options
    const options = this.#perfOptions(plan.perfArgs)
    const current = settingOf(config)
    const about = this.#aboutOf(config)
    const state = isResumed ? TuneState.resume(stateFile, about) : TuneState.create(stateFile, about)
    stdout(`Tuning '${model}' at ${this.#server.url}; now: ${settingText(current)}\n`)
    for (const note of plan.notes) stdout(`- ${note}\n`)
    if (state.points.length > 0) stdout(`- ${state.points.length} points were measured before\n`)
    const meter = new SettingMeter(
      client,
      this.#server,
      config,
      options,
      this.#limits.latencyMs,
      interrupted,
      (window, done) => progress?.(`window ${window}, ${done} requests; ${this.#underWay}`),
    )
    let verdict: TuneVerdict | null = null
    try {
      verdict = await findSetting(current, plan.space, this.#limits, this.#measure(meter, state))
    } catch (reason) {
      if (state.points.length === 0) state.remove()
      if (!(reason instanceof TuneStopped)) throw reason
      progress?.('')
      this.#host.stderr(`galatea tune: ${reason.message}\n`)
    } finally {
      progress?.('')
      if (!this.#server.isOwn) await this.#restore(meter)
    }
    if (verdict !== null && !this.#isInterrupted) return this.#conclude(client, config, state, verdict)
    const head = this.#isInterrupted ? 'Interrupted. ' : ''
    if (state.points.length > 0) stdout(`${head}Go on with: ${this.#host.resumeCommand}\n`)
    else if (this.#isInterrupted) {
      state.remove()
      stdout('Interrupted before anything was measured.\n')
    }
    return 1
  }

  /** Figures of an earlier run are used only when all of these are equal. */
  #aboutOf(config: JsonObject): string {
    const { model, url, repository, protocol, percentile, batchSize, perfArgs, serverFlags } = this.#options
    const files = repository === '' ? '' : filesMark(path.join(repository, model))
    const facts = [model, config, files, url, protocol, percentile, batchSize, perfArgs, serverFlags]
    return createHash('sha256').update(JSON.stringify(facts)).digest('hex')
  }

  async #restore(meter: SettingMeter): Promise<void> {
    const { model } = this.#options
    try {
      await meter.restore()
    } catch (reason) {
      this.#host.stderr(
        `galatea tune: '${model}' could not be loaded as the repository has it (${messageOf(reason)}). If the server runs, load it ` +
          `again: POST /v2/repository/models/${model}/load\n`,
      )
    }
  }

  #measure(meter: SettingMeter, state: TuneState): MeasurePoint {
    const deadlineMs = this.#startedMs + this.#options.minutes * 60_000
    return async (step, setting, concurrency) => {
      const known = state.find({ step, setting, concurrency })
      if (known !== null) return known
      if (this.#isInterrupted) return null
      // The first point is always measured: without it there is no result.
      const isLate = performance.now() > deadlineMs - meter.confirmMs && state.points.length > 0
      if (step !== 'confirm' && isLate) return null
      this.#underWay = `${step}: ${settingText(setting)}; ${concurrency} at once`
      this.#host.progress?.(`loading; ${this.#underWay}`)
      const point = await meter.measure(step, setting, concurrency).catch((reason: unknown) => {
        if (this.#isInterrupted) return null
        throw reason
      })
      // The measurement was cut off, so its figures are wrong.
      if (point === null || this.#isInterrupted) return null
      state.add(point)
      this.#host.progress?.('')
      this.#host.stdout(pointText(point, performance.now() - this.#startedMs, this.#options.percentile, this.#limits))
      return point
    }
  }

  async #conclude(
    client: InferenceClient,
    config: JsonObject,
    state: TuneState,
    verdict: TuneVerdict,
  ): Promise<number> {
    const { stdout, stderr, version, command } = this.#host
    const { percentile, model, repository, reportFile, isApplied, isStateKept } = this.#options
    const bars = barsText(state.points, verdict, this.#limits)
    stdout(`\n${tableText(state.points, percentile, this.#limits)}\n${bars}${bars === '' ? '' : '\n'}`)
    stdout(verdictText(verdict, percentile))
    const { best } = verdict
    const change = best === null || repository === '' ? null : this.#changeTo(config, best.setting)
    const isSame = best !== null && keyOf(best.setting) === keyOf(settingOf(config))
    if (isSame) {
      const words = verdict.isTimeUp ? 'nothing better was found in the time there was' : 'nothing to change'
      stdout(`\n'${model}' stays as it is: ${words}.\n`)
    } else if (change !== null) stdout(`\n${change.diff}`)
    else if (best !== null) stdout(`\nIn config.pbtxt:\n${fragmentText(settingOf(config), best.setting)}`)
    if (reportFile !== '') {
      const date = `${new Date().toISOString().replace('T', ' ').slice(0, 16)} UTC`
      const facts = { model, command, date, version, percentile, diff: change?.diff ?? '' }
      writeFileSync(reportFile, tunePage(state.points, verdict, this.#limits, facts))
      stdout(`\nReport: ${reportFile}\n`)
    }
    const forget = (): void => {
      if (!isStateKept) state.remove()
    }
    if (best === null) {
      forget()
      const isUnmeasured = state.points.every((point) => point.failure !== '')
      stderr(
        `galatea tune: ${isUnmeasured ? 'the model could not be measured. Its requests are random values unless --input-data FILE has better ones' : 'nothing that was tried meets the limits'}\n`,
      )
      return 1
    }
    const isWanted = change !== null && change.diff !== ''
    // If this fails, the figures stay on disk for the next run.
    if (isWanted && isApplied) await this.#apply(client, config, change, best.setting)
    else if (isWanted) stdout(`\nTo have it written: add --apply.\n`)
    forget()
    return !isSame && !isWanted && isApplied ? 1 : 0
  }

  /** Null when the user must change the file by hand. */
  #changeTo(config: JsonObject, setting: Setting): ConfigChange | null {
    const { repository, model } = this.#options
    if (repository.includes('://')) return null
    try {
      return planChange(repository, model, config, setting)
    } catch (reason) {
      this.#host.stderr(`\ngalatea tune: ${messageOf(reason)}\n`)
      return null
    }
  }

  async #apply(client: InferenceClient, config: JsonObject, change: ConfigChange, setting: Setting): Promise<void> {
    const { model, repository } = this.#options
    await applyChange(change, async () => {
      await client.loadModel(model)
      const actual = settingOf(await client.modelConfig(model))
      if (keyOf(actual) === keyOf(setting)) return
      throw new NotTunable(
        `the server has '${model}' with ${settingText(actual)} after ${change.file} was written: is ${repository} the repository ` +
          'that it serves? The file is as it was before',
      )
    }).catch(async (reason: unknown) => {
      if (!this.#server.isOwn) await loadFromRepository(client, model, config).catch(() => undefined)
      if (reason instanceof NotTunable) throw reason
      throw new NotTunable(
        `--apply: ${messageOf(reason)}. ${change.file} is as it was before; once that is mended: ${this.#host.resumeCommand}`,
      )
    })
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

  /** Loads the present configuration once, to find out early whether the server allows loads. */
  async #validateControl(client: InferenceClient, config: JsonObject): Promise<void> {
    if (this.#server.isOwn) return
    try {
      await client.loadModel(this.#options.model, { config: configWith(config, settingOf(config)) })
    } catch (reason) {
      throw new NotTunable(
        `the server does not load models on request (${messageOf(reason)}). Start it with --model-control-mode=explicit ` +
          `--load-model=${this.#options.model}, or let tune start one: --model-repository PATH without -u`,
      )
    }
    try {
      await loadFromRepository(client, this.#options.model, config)
    } catch (reason) {
      throw new NotTunable(
        `'${this.#options.model}' can no longer be loaded as the repository has it (${messageOf(reason)}); the server goes on with the ` +
          'configuration it had. Repair the repository first: galatea check',
      )
    }
  }

  #perfOptions(more: readonly string[]): PerfOptions {
    const { model, protocol, windowMs, percentile, batchSize, perfArgs } = this.#options
    const args = ['-m', model, '-u', this.#server.url, '-i', protocol, '-b', String(batchSize)]
    args.push('-p', String(windowMs), '-r', String(maxWindows), '-s', String(stabilityPercent))
    args.push('--warmup-request-count', String(warmUpRequests))
    const read = readPerfOptions([...args, ...perfArgs, ...more])
    if (read.kind !== 'run') throw new Error('the options of the load generator are wrong')
    // perf_analyzer's flag takes only whole numbers; here 99.9 is allowed too.
    return { ...read.options, measurement: { ...read.options.measurement, percentile } }
  }
}

/** The fields that change. */
function fragmentText(now: Setting, { maxBatchSize, delayUs, instances }: Setting): string {
  const lines: string[] = []
  if (maxBatchSize !== now.maxBatchSize) lines.push(`max_batch_size: ${maxBatchSize}`)
  if (delayUs === null && now.delayUs !== null) lines.push('# no dynamic_batching')
  else if (delayUs !== null && delayUs !== now.delayUs)
    lines.push(`dynamic_batching { max_queue_delay_microseconds: ${delayUs} }`)
  if (instances !== now.instances) lines.push(`instance_group { count: ${instances} }`)
  return `${lines.join('\n')}\n`
}

// A run for a language model: how many requests at a time, how much of their prompts in one step, and how many threads.

import { availableParallelism } from 'node:os'
import type { InferenceClient } from '../client/inference-client.ts'
import { applyChange, planLanguageChange } from './apply-config.ts'
import {
  excessOf,
  findLanguageSetting,
  type LanguageLimits,
  type LanguagePoint,
  type LanguageVerdict,
} from './find-language-setting.ts'
import { changedParameters, languageSettingOf, languageText, type LanguageSetting } from './language-setting.ts'
import { LanguageMeter } from './measure-language.ts'
import type { PerfOptions } from '../perf/perf-options.ts'
import { doublings, NotTunable } from './search-space.ts'
import type { TuneOptions } from './tune-options.ts'
import { clock } from './tune-text.ts'
import type { TunedServer } from './tuned-server.ts'

type JsonObject = Readonly<Record<string, unknown>>

type LanguageHost = {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  readonly progress: ((text: string) => void) | null
  readonly isInterrupted: () => boolean
}

const usualConcurrency = 16
/** A chat of a small model takes a second and more. */
const usualWindowMs = 4000
const slotSteps = [1, 2, 4, 8, 16, 32, 64, 128, 256]
const chunkSteps = [0, 64, 128, 256, 512, 1024]

/** Language models that have these parameters. */
export const isLanguageModel = (config: JsonObject): boolean => config['backend'] === 'llamacpp'

/** Flags that only other models have, and why. */
const othersFlags: Readonly<Record<string, string>> = {
  'latency-ms': 'use --first-token-ms and --inter-token-ms',
  percentile: 'its limits are for the 99th percentile',
  'max-batch-size': 'how many requests it computes at a time is one of the things that are tuned',
  'max-instances': 'one instance computes all its requests together',
  'batch-size': 'a chat has no rows',
  shape: 'its prompts are made: see --prompt-tokens',
  'input-data': 'its prompts are made: see --prompt-tokens',
  'string-length': 'its prompts are made: see --prompt-tokens',
  'sequence-length': 'a chat is no sequence',
  report: 'the report is the text on the terminal',
  state: 'its measurements are not kept',
  resume: 'its measurements are not kept',
}
const ownFlags = ['first-token-ms', 'inter-token-ms', 'prompt-tokens', 'output-tokens']

/** Throws when a flag was given that means nothing for the model. */
export function refuseFlags({ model, protocol, given }: TuneOptions, isLanguage: boolean): void {
  const own = ownFlags.find((flag) => given.has(flag))
  if (!isLanguage && own !== undefined) {
    throw new NotTunable(`--${own} is for language models (backend llamacpp), and '${model}' is none`)
  }
  if (!isLanguage) return
  const refusal = (flag: string, why: string): NotTunable =>
    new NotTunable(`'${model}' is a language model, and ${flag} is not for it: ${why}`)
  if (protocol !== 'http') throw refusal('-i grpc', 'its chats are measured with the OpenAI API over HTTP')
  for (const [flag, why] of Object.entries(othersFlags)) if (given.has(flag)) throw refusal(`--${flag}`, why)
}

export async function tuneLanguage(
  client: InferenceClient,
  server: TunedServer,
  options: TuneOptions,
  headers: PerfOptions['headers'],
  host: LanguageHost,
): Promise<number> {
  const { model, minutes, promptWords, outputTokens } = options
  const config = await client.modelConfig(model)
  const cores = availableParallelism()
  const now = languageSettingOf(config, cores)
  const concurrency = options.given.has('max-concurrency') ? options.maxConcurrency : usualConcurrency
  host.stdout(`Tuning '${model}' at ${server.url}; now: ${languageText(now)}\n`)
  host.stdout(`- ${concurrency} chats at once, prompts of about ${promptWords} tokens, answers of ${outputTokens}\n`)
  const windowMs = options.given.has('window-ms') ? options.windowMs : usualWindowMs
  const meter = new LanguageMeter(client, server, config, { model, concurrency, promptWords, outputTokens, windowMs, headers }) // prettier-ignore
  const startedMs = performance.now()
  const space = {
    threads: doublings(1, cores),
    slots: slotSteps.filter((slots) => slots <= Math.max(2 * concurrency, now.slots)),
    chunk: chunkSteps,
  }
  let verdict: LanguageVerdict
  try {
    verdict = await findLanguageSetting(now, space, options, async (setting) => {
      const isLate = performance.now() - startedMs > minutes * 60_000
      if (host.isInterrupted() || (isLate && setting !== now)) return null
      host.progress?.(`measuring; ${languageText(setting)}`)
      const point = await meter.measure(setting, host.isInterrupted)
      host.progress?.('')
      if (host.isInterrupted()) return null
      host.stdout(pointText(point, performance.now() - startedMs, options))
      return point
    })
  } finally {
    if (!server.isOwn) await meter.restore()
  }
  if (!host.isInterrupted()) return await conclude(now, verdict, client, options, host)
  host.stdout('Interrupted.\n')
  return 1
}

/** Tells what was found, and writes it where that is wanted. */
async function conclude(
  now: LanguageSetting,
  { best, asItIs, findings, isTimeUp }: LanguageVerdict,
  client: InferenceClient,
  { model, repository, isApplied }: TuneOptions,
  { stdout, stderr }: LanguageHost,
): Promise<number> {
  stdout(`\n${findings.map((finding) => `- ${finding}\n`).join('')}`)
  if (isTimeUp) stdout('- the time was up before all was measured: --minutes gives more\n')
  if (best === null) {
    const failure = asItIs?.failure ?? ''
    const what =
      failure === '' ? 'nothing that was tried meets the limits' : `the model could not be measured: ${failure}`
    stderr(`galatea tune: ${what}\n`)
    return 1
  }
  stdout(`\nBest: ${languageText(best.setting)}\n  ${figuresText(best)}\n`)
  if (asItIs !== null && asItIs !== best) stdout(`  as it is: ${figuresText(asItIs)}\n`)
  const changes = changedParameters(now, best.setting)
  if (changes.length === 0) {
    stdout(`\n'${model}' stays as it is: nothing to change.\n`)
    return 0
  }
  if (repository === '' || repository.includes('://')) {
    stdout(`\nIn config.pbtxt:\n${changes.map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }\n`).join('')}`) // prettier-ignore
    return 0
  }
  const change = planLanguageChange(repository, model, changes)
  stdout(`\n${change.diff}`)
  if (isApplied) {
    await applyChange(change, () => client.loadModel(model))
    stdout(`\nWritten: ${change.file}, and the model loads with it.\n`)
  } else stdout('\nTo have it written: add --apply.\n')
  return 0
}

const figuresText = ({ tokensPerSecond, firstTokenMs, interTokenMs }: LanguagePoint): string =>
  `${tokensPerSecond.toFixed(1)} tokens/s, first token p99 ${firstTokenMs.toFixed(0)} ms, between tokens p99 ${interTokenMs.toFixed(0)} ms`

function pointText(point: LanguagePoint, elapsedMs: number, limits: LanguageLimits): string {
  const time = `[${clock(elapsedMs)}]`
  if (point.failure !== '') return `${time} ${languageText(point.setting)}: ${point.failure}\n`
  return `${time} ${languageText(point.setting)}: ${figuresText(point)}${excessOf(point, limits) > 1 ? ', above the limits' : ''}\n`
}

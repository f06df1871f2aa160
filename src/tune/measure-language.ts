// Loads a language model with a setting and measures chats on it, as `galatea perf --service-kind openai` does.

import { messageOf } from '../base/server-error.ts'
import type { InferenceClient } from '../client/inference-client.ts'
import { openAiFigures } from '../perf/openai/openai-figures.ts'
import { atOnce } from '../perf/openai/run-openai.ts'
import { sampleOf, type OpenAiSample } from '../perf/openai/openai-sample.ts'
import type { PerfOptions } from '../perf/perf-options.ts'
import type { LanguagePoint } from './find-language-setting.ts'
import { configWithLanguage, type LanguageSetting } from './language-setting.ts'
import { loadFromRepository } from './measure-settings.ts'
import type { TunedServer } from './tuned-server.ts'

type JsonObject = Readonly<Record<string, unknown>>

type LanguageLoad = {
  readonly model: string
  readonly concurrency: number
  readonly promptWords: number
  readonly outputTokens: number
  /** No chat begins after this time. */
  readonly windowMs: number
  readonly headers: PerfOptions['headers']
}

export class LanguageMeter {
  readonly #client: InferenceClient
  readonly #server: TunedServer
  readonly #config: JsonObject
  readonly #load: LanguageLoad
  #isChanged = false
  #chats = 0

  constructor(client: InferenceClient, server: TunedServer, config: JsonObject, load: LanguageLoad) {
    this.#client = client
    this.#server = server
    this.#config = config
    this.#load = load
  }

  async measure(setting: LanguageSetting, isOver: () => boolean): Promise<LanguagePoint> {
    try {
      this.#isChanged = true
      await this.#client.loadModel(this.#load.model, { config: configWithLanguage(this.#config, setting) })
      const warm = await this.#ask()
      if (warm.error !== '') throw new Error(warm.error)
      const { samples, seconds } = await this.#window(isOver)
      const figures = openAiFigures(this.#load.concurrency, samples, seconds)
      if (figures.failed > 0) throw new Error(figures.firstError)
      return {
        setting,
        tokensPerSecond: figures.outputTokensPerSecond,
        firstTokenMs: figures.firstTokenMs.p99,
        interTokenMs: figures.interTokenMs.p99,
        memoryMib: await this.#server.memoryMib(),
        failure: '',
      }
    } catch (reason) {
      const failure = messageOf(reason).split('\n')[0] ?? ''
      return { setting, tokensPerSecond: 0, firstTokenMs: 0, interTokenMs: 0, memoryMib: null, failure }
    }
  }

  /** Loads the model as the repository has it. */
  async restore(): Promise<void> {
    if (this.#isChanged) await loadFromRepository(this.#client, this.#load.model, this.#config)
    this.#isChanged = false
  }

  async #window(isOver: () => boolean): Promise<{ samples: OpenAiSample[]; seconds: number }> {
    const { concurrency, windowMs } = this.#load
    const startMs = performance.now()
    const isDone = (): boolean => isOver() || performance.now() - startMs >= windowMs
    const samples = await atOnce(() => this.#ask(), concurrency, isDone)
    return { samples, seconds: (performance.now() - startMs) / 1000 }
  }

  /** No two prompts begin alike: nothing of them is in memory. */
  #ask(): Promise<OpenAiSample> {
    const { model, promptWords, outputTokens, headers } = this.#load
    const body = JSON.stringify({
      model,
      messages: [{ role: 'user', content: `${++this.#chats}. Go on:${' word'.repeat(promptWords)}` }],
      max_tokens: outputTokens,
      ignore_eos: true,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
    })
    return sampleOf(() =>
      fetch(`http://${this.#server.url.replace(/^http:\/\//, '')}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', ...Object.fromEntries(headers) },
        body,
      }),
    )
  }
}

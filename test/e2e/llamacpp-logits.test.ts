// Where a token of an answer comes from must not change what the model says, to the last bit: its prompt may be computed at once or in
// slices, beside others, after a beginning that others left in memory, or anew after its place was given away. This file runs the real
// engine on the real library and compares all logits of all steps.
//
// The attention of llama.cpp adds up in another order where 64 tokens or more of one sequence are in a step, and where sequences share
// one memory. So sequences have memories of their own here, and slices are shorter.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { EngineMessage, EngineSettings } from '../../src/backends/llamacpp/engine-protocol.ts'
import { GenerationEngine } from '../../src/backends/llamacpp/engine/generation-engine.ts'
import type { LanguageRuntime, RuntimeSampler } from '../../src/backends/llamacpp/engine/language-runtime.ts'
import { LlamaSession } from '../../src/backends/llamacpp/engine/llama-session.ts'
import { findLlamaLibrary } from '../../src/backends/llamacpp/find-llama-library.ts'
import { readSamplingParameters, type SamplingParameters } from '../../src/llm/sampling-parameters.ts'
import { until } from '../until.ts'
import { chatPrompt, smolFile } from './language-model.ts'
import { recordedAnswers } from './recorded-tokens.ts'

const slots = 4
const tokens = 4
const slice = 32
const settings: EngineSettings = {
  kind: 'generate', slots, cells: slots * 256, contextLength: 256, batchTokens: 256, promptTokens: slice, threads: 1, weights: 'file', gpuLayers: 0, gpu: 0,
  gpuSplit: 'none', waiting: 64, answerMs: 0, adapters: [],
} // prettier-ignore

/** What one request was told: a digest of the logits of each step, and how it ended. */
type Told = { readonly logits: string[]; cachedTokens: number; end: string; onLogits: () => void }

/** The session, with the logits of each choice written down. */
class WatchedRuntime {
  readonly runtime: LanguageRuntime
  readonly #told = new Map<SamplingParameters, Told>()

  constructor(session: LlamaSession) {
    const createSampler: LanguageRuntime['createSampler'] = (sampling, prompt, grammar): RuntimeSampler => {
      const sampler = session.createSampler(sampling, prompt, grammar)
      return {
        get cumulativeLogprob() {
          return sampler.cumulativeLogprob
        },
        get isComplete() {
          return sampler.isComplete
        },
        pick: (row) => {
          const told = this.#told.get(sampling) as Told
          told.logits.push(createHash('sha1').update(session.logitsAt(row)).digest('hex'))
          told.onLogits()
          return sampler.pick(row)
        },
        close: () => sampler.close(),
      }
    }
    this.runtime = new Proxy<LanguageRuntime>(session, {
      get: (target, name) => {
        if (name === 'createSampler') return createSampler
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
  }

  watch(sampling: SamplingParameters): Told {
    const told: Told = { logits: [], cachedTokens: 0, end: '', onLogits: () => undefined }
    this.#told.set(sampling, told)
    return told
  }
}

describe('the logits of a GGUF model', () => {
  let session: LlamaSession
  let prompts: readonly string[]
  let alone: readonly Told[]

  before(async () => {
    const task = { library: findLlamaLibrary('', false), modelPath: await smolFile(), rewrittenPath: null, settings }
    session = LlamaSession.open(task, { nowMs: () => 0, cpuMs: () => 0 }, () => undefined)
    const all = recordedAnswers().map(({ question }) => chatPrompt(question))
    // GALATEA_ALL_PROMPTS=1 asks all of them, which takes minutes.
    prompts = process.env['GALATEA_ALL_PROMPTS'] === '1' ? all : all.filter((_, place) => place % 24 === 0)
    alone = await eachAlone(prompts, { cache_prompt: false })
  })

  after(() => session.close())

  class Asking {
    readonly #watched = new WatchedRuntime(session)
    readonly #told = new Map<number, Told>()
    readonly engine: GenerationEngine
    preemptions = 0
    #nowMs = 0

    constructor(changed: Partial<EngineSettings> = {}) {
      for (let id = 0; id < slots; id++) session.forget(id, 0)
      const post = (messages: readonly EngineMessage[]): void => messages.forEach((message) => this.#on(message))
      const dependencies = { session: this.#watched.runtime, post, nowMs: () => (this.#nowMs += 1) }
      this.engine = new GenerationEngine(dependencies, { ...settings, ...changed })
    }

    ask(text: string, more: Record<string, unknown> = {}): { key: number; told: Told } {
      const key = this.#told.size + 1
      const entries = { temperature: 0, max_tokens: tokens, ignore_eos: true, ...more }
      const sampling = readSamplingParameters(Object.entries(entries))
      const told = this.#watched.watch(sampling)
      this.#told.set(key, told)
      void this.engine.take({ kind: 'generate', key, text, sampling, priority: 9, isStreamed: true, waitedMs: 0 })
      return { key, told }
    }

    async ended(...all: readonly Told[]): Promise<void> {
      await until(() => all.every(({ end }) => end !== ''), 'the answers end')
    }

    #on(message: EngineMessage): void {
      if (message.kind === 'figures') this.preemptions += message.figures.preemptions
      if (message.kind === 'failed') throw new Error(message.message)
      if (message.kind !== 'text' || message.end === null) return
      const told = this.#told.get(message.key) as Told
      told.end = message.end.reason
      told.cachedTokens = message.end.cachedTokens
    }
  }

  async function eachAlone(
    asked: readonly string[],
    more: Record<string, unknown>,
    changed: Partial<EngineSettings> = {},
  ): Promise<Told[]> {
    const asking = new Asking(changed)
    const all: Told[] = []
    for (const prompt of asked) {
      const { told } = asking.ask(prompt, more)
      await asking.ended(told)
      all.push(told)
    }
    return all
  }

  function assertSame(told: readonly Told[]): void {
    for (const [i, { logits, end }] of told.entries()) {
      assert.equal(end, 'length')
      assert.deepEqual(logits, alone[i]?.logits, `the logits after '${prompts[i]}'`)
    }
  }

  test('are the same where others left the beginning in memory, and when the same prompt is asked again', async () => {
    for (const { logits, cachedTokens } of alone) assert.deepEqual([logits.length, cachedTokens], [tokens, 0])
    const kept = await eachAlone(prompts, {})
    assertSame(kept)
    assert.ok(kept.slice(1).every(({ cachedTokens }) => cachedTokens > 16), 'the system prompt was in memory') // prettier-ignore
    const [, again] = await eachAlone(prompts.slice(0, 1).concat(prompts.slice(0, 1)), {})
    assert.ok(again !== undefined && again.cachedTokens > slice, 'all of the prompt but its last token was in memory')
    assertSame([again])
  })

  test('are the same in slices of 7 tokens', async () => {
    assertSame(await eachAlone(prompts.slice(0, 2), { cache_prompt: false }, { promptTokens: 7 }))
  })

  test('are the same beside others, also where these leave, or lose their places and begin anew', async () => {
    const asking = new Asking()
    const all = prompts.map((prompt) => asking.ask(prompt))
    const still = all.slice(0, 2)
    // Those who stand still lose their places to those who wait, and compute their tokens again later.
    for (const { key, told } of still) told.onLogits = () => asking.engine.setPaused(key, true)
    const leaving = asking.ask(prompts[1] ?? '', { max_tokens: 200 })
    await asking.ended(...all.slice(2).map(({ told }) => told))
    asking.engine.cancel(leaving.key)
    for (const { key, told } of still) {
      told.onLogits = () => undefined
      asking.engine.setPaused(key, false)
    }
    await asking.ended(leaving.told, ...still.map(({ told }) => told))
    assertSame(all.map(({ told }) => told))
    assert.equal(leaving.told.end, 'cancelled')
    assert.ok(asking.preemptions > 0, 'a place was given away')
  })
})

// What those who wait for a first token and those who read an answer see of the engine of language models, in virtual time. A step takes
// a little for itself and the same for each of its tokens, as on a processor.

import assert from 'node:assert/strict'
import test from 'node:test'
import type { EngineMessage, EngineSettings } from '../../src/backends/llamacpp/engine-protocol.ts'
import { GenerationEngine } from '../../src/backends/llamacpp/engine/generation-engine.ts'
import { readSamplingParameters } from '../../src/llm/sampling-parameters.ts'
import { FakeLanguageRuntime, textOf } from '../fakes/fake-language-runtime.ts'
import { Random } from './random.ts'

type Chat = {
  readonly atMs: number
  /** What the prompt begins with, and how many tokens of its own follow. */
  readonly beginning: string
  readonly promptTokens: number
  readonly answerTokens: number
}

const slots = 16
const stepMs = 12
const settings: EngineSettings = {
  kind: 'generate', slots, cells: 100_000, contextLength: 6000, batchTokens: 2048, promptTokens: 0, threads: 1, weights: 'file', gpuLayers: 0, gpu: 0, gpuSplit: 'none', waiting: 64, answerMs: 0, adapters: [],
} // prettier-ignore

const together = (count: number, promptTokens: number, beginning = ''): Chat[] =>
  Array.from({ length: count }, (_, i) => ({ atMs: i, beginning, promptTokens, answerTokens: 24 }))

class SimulatedModel {
  readonly #runtime = new FakeLanguageRuntime(settings)
  readonly #engine: GenerationEngine
  readonly #random = new Random(26, 1)
  readonly #tokenMs: number
  /** When each token of each chat was there. */
  readonly #said = new Map<number, number[]>()
  #coming: Chat[] = []
  #open = 0
  #nowMs = 0
  #key = 0

  constructor(tokenMs: number) {
    this.#tokenMs = tokenMs
    const post = (messages: readonly EngineMessage[]): void => messages.forEach((message) => this.#onMessage(message))
    this.#engine = new GenerationEngine({ session: this.#runtime, post, nowMs: () => this.#nowMs }, settings)
    this.#runtime.beforeDecode = () => this.#passStep()
  }

  /** A model that has answered before: it knows what its steps take. */
  static async warm(tokenMs: number): Promise<SimulatedModel> {
    const model = new SimulatedModel(tokenMs)
    for (const count of [2, slots, slots]) await model.run(together(count, 20))
    return model
  }

  /** Milliseconds to the first token of each chat, in order, and between the further ones. */
  async run(chats: readonly Chat[]): Promise<{ firstMs: number[]; nextMs: number[] }> {
    const [startMs, firstKey] = [this.#nowMs, this.#key + 1]
    this.#coming = chats.map((chat) => ({ ...chat, atMs: startMs + chat.atMs }))
    while (this.#coming.length + this.#open > 0) {
      if (this.#open === 0) this.#ask()
      await nextTurn()
    }
    const times = chats.map((_, i) => this.#said.get(firstKey + i) ?? [])
    const firstMs = times.map(([first = NaN], i) => first - startMs - (chats[i]?.atMs ?? 0))
    const nextMs = times.flatMap((one) => one.slice(1).map((time, i) => time - (one[i] ?? NaN)))
    return { firstMs, nextMs }
  }

  async #passStep(): Promise<void> {
    const endMs = this.#nowMs + stepMs + this.#runtime.batch.length * this.#tokenMs
    while ((this.#coming[0]?.atMs ?? Infinity) <= endMs) {
      this.#ask()
      await nextTurn()
    }
    this.#nowMs = endMs
  }

  #ask(): void {
    const chat = this.#coming.shift()
    assert.ok(chat !== undefined)
    this.#nowMs = Math.max(this.#nowMs, chat.atMs)
    this.#open++
    const text = chat.beginning + textOf(Array.from({ length: chat.promptTokens }, () => this.#random.int(26)))
    const sampling = readSamplingParameters([['max_tokens', chat.answerTokens]])
    void this.#engine.take({ kind: 'generate', key: ++this.#key, text, sampling, priority: 9, isStreamed: true, waitedMs: 0 }) // prettier-ignore
    this.#said.set(this.#key, [])
  }

  #onMessage(message: EngineMessage): void {
    if (message.kind !== 'text') return
    this.#said.get(message.key)?.push(this.#nowMs)
    if (message.end !== null) this.#open--
  }
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const percentile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? NaN
/** What a step with an answer of each slot takes. */
const answersMs = (tokenMs: number): number => stepMs + slots * tokenMs

test('of short prompts that come together none is left over to hold up all that have begun to answer', async () => {
  for (const tokenMs of [4.5, 6.5, 9]) {
    const model = await SimulatedModel.warm(tokenMs)
    const { nextMs } = await model.run(together(slots, 22))
    assert.ok(percentile(nextMs, 0.99) <= answersMs(tokenMs) * 1.05, `${percentile(nextMs, 0.99)} ms at ${tokenMs}`)
  }
})

test('so it is with prompts whose beginning is in memory: what need not be computed is not counted', async () => {
  const model = await SimulatedModel.warm(8)
  const beginning = 'youareahelpfulassistantnamed'
  await model.run(together(1, 22, beginning))
  const { nextMs } = await model.run(together(slots, 22, beginning))
  assert.ok(percentile(nextMs, 0.99) <= answersMs(8) * 1.05, `${percentile(nextMs, 0.99)} ms`)
})

test('long prompts that come together get their first tokens one after the other, and the last one soon after all are computed', async () => {
  const tokenMs = 4.5
  const model = await SimulatedModel.warm(tokenMs)
  const { firstMs, nextMs } = await model.run(together(slots, 330))
  const promptMs = 330 * tokenMs
  assert.ok(percentile(firstMs, 0.5) < promptMs * 9, `half of them after ${percentile(firstMs, 0.5)} ms`)
  assert.ok(Math.max(...firstMs) < promptMs * slots * 1.05, `the last one after ${Math.max(...firstMs)} ms`)
  assert.ok(Math.max(...nextMs) < promptMs * 1.1, `${Math.max(...nextMs)} ms between two tokens`)
})

test('a few short prompts that have just come do not hold up those who read', async () => {
  const model = await SimulatedModel.warm(4.5)
  const readers = together(8, 22).map((chat) => ({ ...chat, answerTokens: 64 }))
  const { firstMs, nextMs } = await model.run([...readers, ...together(3, 22).map((chat) => ({ ...chat, atMs: 2000 }))])
  const ofReaders = nextMs.slice(0, 8 * 63)
  assert.ok(percentile(ofReaders, 0.99) <= 1.5 * (stepMs + 11 * 4.5), `${percentile(ofReaders, 0.99)} ms`)
  assert.ok(Math.max(...firstMs.slice(8)) < 1500, `${Math.max(...firstMs.slice(8))} ms to a first token`)
})

test('a prompt of 4,000 tokens beside eight answers makes their pauses at most 1.5 times as long', async () => {
  const chats = together(8, 22).map((chat) => ({ ...chat, answerTokens: 64 }))
  const alone = await (await SimulatedModel.warm(4.5)).run(chats)
  const beside = await (
    await SimulatedModel.warm(4.5)
  ).run([...chats, { atMs: 500, beginning: '', promptTokens: 4000, answerTokens: 2 }])
  const ofChats = beside.nextMs.slice(0, alone.nextMs.length)
  assert.ok(percentile(ofChats, 0.99) <= 1.5 * percentile(alone.nextMs, 0.99), `${percentile(ofChats, 0.99)} ms`)
})

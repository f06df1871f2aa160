// The engine of language models under random arrivals, cancels, pauses and shortages of memory, on a made-up model whose every
// token follows from all tokens before it: an answer is right only if the memory of its sequence was right in every step.

import assert from 'node:assert/strict'
import test from 'node:test'
import type { EngineFigures, EngineMessage, EngineSettings } from '../../src/backends/llamacpp/engine-protocol.ts'
import { GenerationEngine } from '../../src/backends/llamacpp/engine/generation-engine.ts'
import { readSamplingParameters } from '../../src/llm/sampling-parameters.ts'
import { FakeLanguageRuntime, nextToken, textOf, tokensOf } from '../fakes/fake-language-runtime.ts'
import { until } from '../until.ts'
import { Random } from './random.ts'

type Asked = { readonly text: string; readonly maxTokens: number; readonly lora: string; isCancelled: boolean }

function expectedAnswer({ text, maxTokens, lora }: Asked, contextLength: number): string {
  const tokens = tokensOf(text)
  const start = tokens.length
  while (tokens.length - start < maxTokens && tokens.length < contextLength) tokens.push(nextToken(tokens, lora))
  return textOf(tokens.slice(start))
}

class EngineUnderTest {
  readonly runtime: FakeLanguageRuntime
  readonly engine: GenerationEngine
  readonly asked = new Map<number, Asked>()
  readonly texts = new Map<number, string>()
  readonly ends = new Map<number, string>()
  readonly ended: number[] = []
  figures: EngineFigures | null = null
  preemptions = 0
  cachedTokens = 0
  #key = 0
  #nowMs = 0

  constructor(settings: Partial<EngineSettings> & { cells: number; slots: number }, sharesParts = true) {
    const all: EngineSettings = {
      kind: 'generate', contextLength: Math.min(64, settings.cells), batchTokens: 32, promptTokens: 0, threads: 1, weights: 'file', gpuLayers: 0, gpu: 0, gpuSplit: 'none', waiting: 64, answerMs: 0, adapters: [],
      ...settings,
    } // prettier-ignore
    this.runtime = new FakeLanguageRuntime(all, sharesParts)
    const post = (messages: readonly EngineMessage[]): void => messages.forEach((message) => this.#onMessage(message))
    this.engine = new GenerationEngine({ session: this.runtime, post, nowMs: () => (this.#nowMs += 1) }, all)
  }

  ask(text: string, maxTokens: number, { priority = 9, isStreamed = true, lora = '' } = {}): number {
    const key = ++this.#key
    this.asked.set(key, { text, maxTokens, lora, isCancelled: false })
    this.texts.set(key, '')
    const sampling = readSamplingParameters([['max_tokens', maxTokens], ['lora', lora]]) // prettier-ignore
    void this.engine.take({ kind: 'generate', key, text, sampling, priority, isStreamed, waitedMs: 0 })
    return key
  }

  async settled(): Promise<void> {
    await until(() => this.ends.size === this.asked.size, 'every request ended', {
      seen: () => `${this.ends.size} of ${this.asked.size}`,
    })
    await until(() => this.figures?.running === 0 && this.figures.waiting === 0, 'the engine rests')
  }

  check(): void {
    for (const [key, asked] of this.asked) {
      const expected = expectedAnswer(asked, this.runtime.contextLength)
      const text = this.texts.get(key) ?? ''
      if (this.ends.get(key) === 'cancelled') assert.ok(expected.startsWith(text), `${text} begins ${expected}`)
      else {
        assert.equal(this.ends.get(key), 'length')
        assert.equal(text, expected)
      }
    }
    assert.equal(this.figures?.usedCells, this.runtime.usedCells, 'cells are counted as they are used')
    assert.equal(this.runtime.openSamplers, 0, 'samplers are closed')
  }

  #onMessage(message: EngineMessage): void {
    if (message.kind === 'figures') {
      this.figures = message.figures
      this.preemptions += message.figures.preemptions
      this.cachedTokens += message.figures.cachedTokens
    } else if (message.kind === 'failed') this.#end(message.key, `failed: ${message.message}`)
    else if (message.kind === 'text') {
      this.texts.set(message.key, (this.texts.get(message.key) ?? '') + message.text)
      if (message.end !== null) this.#end(message.key, message.end.reason)
    }
  }

  #end(key: number, reason: string): void {
    assert.ok(!this.ends.has(key), `request ${key} ends once`)
    this.ends.set(key, reason)
    this.ended.push(key)
  }
}

test('answers are right whatever runs beside them, in memory that is too small for all', async () => {
  const random = new Random(Number(process.env['GALATEA_SEED'] ?? 26), 1)
  for (let round = 0; round < 40; round++) {
    const slots = random.int(6) + 1
    const cells = random.int(137) + 24
    // Every fourth model has a state in place of a memory that can be cut.
    const under = new EngineUnderTest({ slots, cells, promptTokens: random.int(7) }, round % 4 !== 3)
    const beginnings = ['abcabcabcabcabcabcabc', 'zyxzyxzyxzyxzyxzyxzyxzyx', '']
    const open = new Set<number>()
    under.runtime.beforeDecode = () => {
      // Between two steps anything may happen.
      for (const key of open) {
        if (random.oneIn(41)) under.engine.cancel(key)
        if (random.oneIn(21)) under.engine.setPaused(key, random.int(2) === 0)
      }
      return new Promise((resolve) => setImmediate(resolve))
    }
    for (let i = 0; i < 24; i++) {
      const beginning = beginnings[random.int(3)] ?? ''
      const text = (beginning + textOf([random.int(26), random.int(26)])).slice(0, Math.min(30, cells - 2))
      const lora = random.oneIn(4) ? 'other' : ''
      open.add(under.ask(text, random.int(20) + 1, { priority: random.int(3) + 1, lora }))
      if (random.oneIn(3)) await new Promise((resolve) => setImmediate(resolve))
    }
    // Who is paused for ever would never end.
    await until(() => {
      for (const key of open) under.engine.setPaused(key, false)
      return under.ends.size === under.asked.size
    }, 'every request ended')
    await under.settled()
    under.check()
  }
})

test('a preempted sequence goes on where it was, and the one that came last is preempted', async () => {
  const under = new EngineUnderTest({ slots: 4, cells: 64, contextLength: 64 })
  for (let i = 0; i < 4; i++) under.ask(textOf([i, i, i, i]), 30)
  await under.settled()
  under.check()
  assert.ok(under.preemptions > 0, 'the memory is too small for four answers')
  assert.equal(under.ended[0], 1)
})

test('requests that begin alike compute their beginning once, also while the first of them runs', async () => {
  const under = new EngineUnderTest({ slots: 4, cells: 400, contextLength: 100, batchTokens: 16 })
  const beginning = textOf(Array.from({ length: 60 }, (_, i) => (i * 7) % 26))
  for (let i = 0; i < 8; i++) under.ask(beginning + textOf([i, i]), 4)
  await under.settled()
  under.check()
  assert.ok(under.cachedTokens >= 7 * 48, `${under.cachedTokens} tokens were reused`)
  assert.ok(under.runtime.decodedTokens < 62 + 8 * 16, `${under.runtime.decodedTokens} tokens were computed`)
})

test('a smaller priority goes first, and within a priority who came first', async () => {
  const under = new EngineUnderTest({ slots: 1, cells: 64 })
  const first = under.ask('abc', 3)
  const [late, urgent, last] = [under.ask('bcd', 3), under.ask('cde', 3, { priority: 1 }), under.ask('def', 3)]
  await under.settled()
  assert.deepEqual(
    under.ended.toSorted((a, b) => a - b),
    [first, late, urgent, last],
  )
  assert.ok(under.ended.indexOf(urgent) < under.ended.indexOf(late))
  assert.ok(under.ended.indexOf(late) < under.ended.indexOf(last))
})

test('a paused sequence computes nothing, and the others go on', async () => {
  const under = new EngineUnderTest({ slots: 2, cells: 200 })
  let steps = 0
  under.runtime.beforeDecode = () => {
    if (++steps === 3) under.engine.setPaused(1, true)
    return Promise.resolve()
  }
  under.ask('aaa', 20)
  under.ask('bbb', 40)
  await until(() => under.ends.has(2), 'the other ended')
  const said = under.texts.get(1)?.length ?? 0
  assert.ok(said < 5, `${said} tokens`)
  under.engine.setPaused(1, false)
  await under.settled()
  under.check()
})

test('a prompt that fills the context is refused, and one that leaves room ends where the context ends', async () => {
  const under = new EngineUnderTest({ slots: 1, cells: 32, contextLength: 16 })
  const refused = under.ask(textOf(Array.from({ length: 16 }, () => 3)), 5)
  const cut = under.ask(textOf(Array.from({ length: 10 }, () => 3)), 50)
  const long = under.ask(textOf(Array.from({ length: 1025 }, () => 3)), 5)
  await under.settled()
  assert.match(under.ends.get(long) ?? '', /has 1025 characters, .* takes at most 1024/)
  assert.match(under.ends.get(refused) ?? '', /context has 16 tokens, and text_input alone has 16/)
  assert.equal(under.ends.get(cut), 'length')
  assert.equal(under.texts.get(cut)?.length, 6)
})

test('an answer that takes longer than it may ends there, and its memory is for others', async () => {
  // The clock of this engine goes on by one with every look at it.
  const under = new EngineUnderTest({ slots: 1, cells: 64, contextLength: 64, answerMs: 60 })
  const slow = under.ask('abc', 50)
  const quick = under.ask('bcd', 3)
  await under.settled()
  assert.equal(under.ends.get(slow), 'length')
  const said = under.texts.get(slow)?.length ?? 0
  assert.ok(said > 0 && said < 50, `${said} tokens`)
  assert.equal(under.texts.get(quick)?.length, 3)
})

test('who ends between others leaves no gap in a step, and what fills it is forgotten', async () => {
  const under = new EngineUnderTest({ slots: 3, cells: 192 })
  const { batch } = under.runtime
  const steps: string[][] = []
  const [add, clear] = [batch.add.bind(batch), batch.clear.bind(batch)]
  batch.add = (token, position, sequence, isWanted) => {
    steps.at(-1)?.push(isWanted ? `${sequence}` : `(${sequence})`)
    return add(token, position, sequence, isWanted)
  }
  batch.clear = () => {
    steps.push([])
    clear()
  }
  for (const maxTokens of [12, 3, 12]) under.ask('abc', maxTokens)
  await under.settled()
  under.check()
  const texts = steps.map((step) => step.join(' '))
  assert.ok(texts.includes('0 (1) 2') && !texts.includes('0 2'), texts.join(', '))
})

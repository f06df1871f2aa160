// Runs all sequences of a model together: one decode per step, with the next token of every running answer and a slice of the
// prompts that wait. Between two steps sequences are cancelled, paused, admitted, and preempted when the memory is short.

import { messageOf, ServerError } from '../../../base/server-error.ts'
import { grammarOfSchema } from '../../../llm/grammar-of-schema.ts'
import { requireGrammar } from '../../../llm/require-grammar.ts'
import type { EngineMessage, EngineSettings, FinishReason, GenerateOrder } from '../engine-protocol.ts'
import { EngineTally } from './engine-tally.ts'
import type { LanguageRuntime } from './language-runtime.ts'
import { promptBudget, responseRatio, wholePrompts, type PromptWait } from './prompt-budget.ts'
import { requireTextLength } from './require-text-length.ts'
import { Sequence } from './sequence.ts'
import { slotsInGaps } from './slot-gaps.ts'
import { SlotTable, type Slot } from './slot-table.ts'

/** What is computed only to fill a gap is forgotten, whatever it is. */
const anyToken = 0

/** Cells that must be free beyond a prompt, so that what is admitted is not preempted at once. */
const headroomCells = 32

type EngineDependencies = {
  readonly session: LanguageRuntime
  readonly post: (messages: readonly EngineMessage[]) => void
  readonly nowMs: () => number
}

export class GenerationEngine {
  readonly #session: LanguageRuntime
  readonly #post: EngineDependencies['post']
  readonly #nowMs: () => number
  readonly #settings: EngineSettings
  readonly #table: SlotTable
  readonly #tally: EngineTally
  /** Sorted: who is first is admitted first. */
  readonly #waiting: Sequence[] = []
  /** Orders whose text is being tokenized. */
  readonly #early = new Map<number, { isCancelled: boolean; isPaused: boolean }>()
  readonly #outbox: EngineMessage[] = []
  #arrivals = 0
  #isRunning = false
  #isWoken = false
  #adapter = ''
  #hasPreempted = false

  constructor({ session, post, nowMs }: EngineDependencies, settings: EngineSettings) {
    this.#session = session
    this.#post = post
    this.#nowMs = nowMs
    this.#settings = settings
    this.#table = new SlotTable(session, settings.slots)
    this.#tally = new EngineTally(nowMs)
  }

  async take(order: GenerateOrder): Promise<void> {
    const bornMs = this.#nowMs() - order.waitedMs
    const arrival = this.#arrivals++
    const early = { isCancelled: false, isPaused: false }
    this.#early.set(order.key, early)
    try {
      const sequence = await this.#prepare(order, arrival, bornMs)
      sequence.isCancelled = early.isCancelled
      sequence.isPaused = early.isPaused
      this.#enqueue(sequence)
    } catch (reason) {
      this.#fail(order.key, reason)
    } finally {
      this.#early.delete(order.key)
    }
    this.#flush()
    void this.#run()
  }

  cancel(key: number): void {
    const early = this.#early.get(key)
    if (early !== undefined) early.isCancelled = true
    const sequence = this.#find(key)
    if (sequence !== undefined) sequence.isCancelled = true
    void this.#run()
  }

  setPaused(key: number, isPaused: boolean): void {
    const sequence = this.#early.get(key) ?? this.#find(key)
    if (sequence !== undefined) sequence.isPaused = isPaused
    void this.#run()
  }

  async #prepare(order: GenerateOrder, arrival: number, bornMs: number): Promise<Sequence> {
    const { sampling } = order
    if (!this.#session.hasAdapter(sampling.lora)) {
      const known = this.#settings.adapters.map(({ name }) => `'${name}'`).join(', ')
      const text = `sampling_parameters: 'lora' '${sampling.lora}' is not an adapter of this model; it has ${known || 'none'}`
      throw ServerError.withoutStack('INVALID_ARG', text)
    }
    const grammar = sampling.jsonSchema === '' ? sampling.grammar : grammarOfSchema(sampling.jsonSchema)
    if (grammar !== '') requireGrammar(grammar)
    requireTextLength(order.text, this.#session.contextLength)
    const prompt = await this.#session.tokenize(order.text, sampling.addSpecialTokens)
    const { contextLength } = this.#session
    if (prompt.length === 0) {
      throw ServerError.withoutStack('INVALID_ARG', 'text_input must have at least one token, it is empty')
    }
    if (prompt.length >= contextLength) {
      const text = `the model's context has ${contextLength} tokens, and text_input alone has ${prompt.length}: send a shorter text`
      throw ServerError.withoutStack('INVALID_ARG', text)
    }
    return new Sequence(order, prompt, this.#session.createSampler(sampling, prompt, grammar), arrival, bornMs)
  }

  #find(key: number): Sequence | undefined {
    const isIt = (sequence: Sequence | null): boolean => sequence?.key === key
    return this.#waiting.find(isIt) ?? this.#table.slots.find((slot) => isIt(slot.sequence))?.sequence ?? undefined
  }

  #enqueue(sequence: Sequence): void {
    let place = this.#waiting.length
    while (place > 0 && goesBefore(sequence, this.#waiting[place - 1] as Sequence)) place--
    this.#waiting.splice(place, 0, sequence)
  }

  async #run(): Promise<void> {
    // A call that comes while the last step returns must not be lost.
    this.#isWoken = true
    if (this.#isRunning) return
    this.#isRunning = true
    try {
      while (this.#isWoken) {
        this.#isWoken = false
        while (await this.#step());
      }
    } finally {
      this.#isRunning = false
      this.#flush()
    }
  }

  /** False: there is nothing to compute. */
  async #step(): Promise<boolean> {
    this.#dropEnded()
    this.#admit()
    const { batch } = this.#session
    batch.clear()
    this.#hasPreempted = false
    const running = this.#table.slots.filter((slot) => slot.sequence !== null && !slot.sequence.isPaused)
    const adapter = this.#nextAdapter(running)
    const turn = running.filter(({ sequence }) => sequence?.sampling.lora === adapter)
    const filled = this.#slotsToFill(turn)
    const answers = this.#addAnswers(turn, filled)
    const prompts = this.#addPrompts(turn, answers)
    if (batch.length === 0) {
      this.#flush()
      // Memory that was given back is for others, or for those of another adapter.
      return this.#hasPreempted
    }
    this.#session.useAdapter(adapter)
    const startMs = this.#nowMs()
    try {
      await this.#session.decode()
    } catch (reason) {
      for (const slot of turn) this.#failSlot(slot, reason)
      return true
    } finally {
      for (const { id, tokens } of filled) this.#session.forget(id, tokens.length)
    }
    this.#tally.stepped(answers, prompts, this.#nowMs() - startMs)
    for (const slot of turn) {
      this.#table.settle(slot)
      this.#advance(slot)
    }
    this.#flush()
    return true
  }

  /** Sequences with different adapters cannot share a step, so adapters take turns. */
  #nextAdapter(running: readonly Slot[]): string {
    const names = [...new Set(running.map(({ sequence }) => sequence?.sampling.lora ?? ''))].sort()
    this.#adapter = names.find((name) => name > this.#adapter) ?? names[0] ?? ''
    return this.#adapter
  }

  /** Slots whose next token nobody asked for, but which makes the others neighbours. */
  #slotsToFill(turn: readonly Slot[]): readonly Slot[] {
    const { batch, isDivided, sharesParts, cells } = this.#session
    const { slots, book } = this.#table
    // What is in the batch cannot be there twice: beside prompts nothing is filled.
    if (!isDivided || !sharesParts || turn.some(({ sequence }) => (sequence?.next ?? -1) < 0)) return []
    const filled = slotsInGaps(turn.map(({ id }) => id)).map((id) => slots[id] as Slot)
    const canBeFilled = ({ tokens, adapter }: Slot): boolean =>
      tokens.length === 0 || (tokens.length < Math.floor(cells / slots.length) && adapter === this.#adapter)
    const most = Math.min(batch.most, book.freeCount)
    return turn.length + filled.length <= most && filled.every(canBeFilled) ? filled : []
  }

  #addAnswers(turn: readonly Slot[], filled: readonly Slot[]): number {
    const { batch } = this.#session
    let count = 0
    for (const slot of [...turn, ...filled].sort((a, b) => a.id - b.id)) {
      if (filled.includes(slot)) {
        batch.add(anyToken, slot.tokens.length, slot.id, false)
        continue
      }
      const { sequence } = slot
      // An earlier slot may have taken this one's memory.
      if (sequence === null) continue
      sequence.row = -1
      if (sequence.next < 0 || !this.#roomFor(slot)) continue
      sequence.row = batch.add(sequence.next, slot.tokens.length, slot.id, true)
      this.#table.append(slot, sequence.next)
      count++
    }
    return count
  }

  /** Frees a cell for the next token: of slots that nobody uses, or of the sequence that matters least. */
  #roomFor(slot: Slot): boolean {
    while (!this.#table.makeRoom(1)) {
      const last = this.#leastImportant()
      if (last === null) return false
      this.#preempt(last)
      if (last === slot) return false
    }
    return true
  }

  #leastImportant(): Slot | null {
    let last: Slot | null = null
    for (const slot of this.#table.slots) {
      // What is in the batch is computed.
      if (slot.sequence === null || slot.tokens.length > slot.computed) continue
      if (last === null || mattersMore(last.sequence as Sequence, slot.sequence)) last = slot
    }
    return last
  }

  /** The sequence waits for memory; then it computes its tokens again and goes on. */
  #preempt(slot: Slot): void {
    const sequence = slot.sequence as Sequence
    if (sequence.next >= 0) sequence.tokens = [...slot.tokens, sequence.next]
    sequence.next = -1
    sequence.hasLooked = false
    this.#table.clear(slot)
    this.#enqueue(sequence)
    this.#hasPreempted = true
    this.#tally.preempted()
  }

  #addPrompts(turn: readonly Slot[], answers: number): number {
    const { batch } = this.#session
    const times = this.#tally.times(answers)
    const nowMs = this.#nowMs()
    const waitOf = ({ sequence }: Slot): PromptWait => {
      return { tokens: sequence?.tokens.length ?? 0, waitedMs: nowMs - (sequence?.bornMs ?? nowMs) }
    }
    const waiting = turn
      .filter(({ sequence }) => sequence !== null && sequence.next < 0)
      .sort(
        (a, b) => priorityOf(a) - priorityOf(b) || responseRatio(waitOf(b), times) - responseRatio(waitOf(a), times),
      )
    const fixed = this.#settings.promptTokens
    const most = batch.most - batch.length
    const timely = (): number => promptBudget(answers, waiting.map(waitOf), times, most)
    const toCompute = (): number[] => waiting.map((slot) => this.#tokensToCompute(slot))
    const budget = fixed > 0 ? Math.min(fixed, most) : wholePrompts(timely(), toCompute(), most)
    let left = budget
    let hasWhole = false
    for (const slot of waiting) {
      if (left === 0) break
      const { sequence } = slot
      // A sequence before it may have needed its memory.
      if (sequence === null) continue
      left -= this.#addPrompt(slot, sequence, left, hasWhole)
      hasWhole ||= tokensLeft(slot) === 0
    }
    return budget - left
  }

  #tokensToCompute(slot: Slot): number {
    const { sequence } = slot
    if (sequence === null || sequence.hasLooked) return tokensLeft(slot)
    return sequence.tokens.length - this.#table.reusable(slot, sequence)
  }

  #addPrompt(slot: Slot, sequence: Sequence, most: number, isWhole: boolean): number {
    if (!sequence.hasLooked) {
      if (this.#table.isBeingComputed(slot, sequence)) return 0
      sequence.hasLooked = true
      const reused = this.#table.reuse(slot, sequence)
      if (sequence.outputTokens === 0) sequence.cachedTokens = reused
      this.#tally.looked(sequence.tokens.length, reused)
    }
    const { tokens } = sequence
    // Who gets a first token in this step would wait for a part of somebody else's prompt.
    if (isWhole && tokensLeft(slot) > most) return 0
    if (!this.#roomFor(slot)) return 0
    const wanted = Math.min(most, tokensLeft(slot))
    const count = this.#table.makeRoom(wanted) ? wanted : this.#table.book.freeCount
    for (let i = 0; i < count; i++) {
      const place = slot.tokens.length
      const isLast = place === tokens.length - 1
      const row = this.#session.batch.add(tokens[place] as number, place, slot.id, isLast)
      if (isLast) sequence.row = row
      this.#table.append(slot, tokens[place] as number)
    }
    return count
  }

  /** After a step: the sequence says its next token, and ends or goes on. */
  #advance(slot: Slot): void {
    const { sequence } = slot
    if (sequence === null || sequence.row < 0 || sequence.isCancelled) return
    try {
      const { token, logprob } = sequence.sampler.pick(sequence.row)
      sequence.row = -1
      const isEnd = this.#session.isEnd(token)
      const bytes = this.#session.pieceOf(token, !sequence.sampling.skipSpecialTokens)
      const reason = sequence.say(token, bytes, isEnd, logprob) ?? this.#fullReason(slot)
      this.#tally.said(sequence)
      if (reason !== null) {
        this.#end(slot, reason)
        return
      }
      sequence.next = token
      const message = sequence.takeText()
      if (message !== null) this.#outbox.push(message)
    } catch (failure) {
      this.#failSlot(slot, failure)
    }
  }

  #fullReason(slot: Slot): FinishReason | null {
    return slot.tokens.length + 1 >= this.#session.contextLength ? 'length' : null
  }

  #end(slot: Slot, reason: FinishReason): void {
    const sequence = slot.sequence as Sequence
    this.#outbox.push(sequence.finish(reason, this.#nowMs()))
    sequence.sampler.close()
    this.#table.leave(slot)
  }

  #dropEnded(): void {
    const nowMs = this.#nowMs()
    for (const slot of this.#table.slots) {
      const reason = slot.sequence === null ? null : this.#endOf(slot.sequence, nowMs)
      if (reason !== null) this.#end(slot, reason)
    }
    for (let i = this.#waiting.length - 1; i >= 0; i--) {
      const sequence = this.#waiting[i] as Sequence
      const reason = this.#endOf(sequence, nowMs)
      if (reason === null) continue
      this.#waiting.splice(i, 1)
      this.#outbox.push(sequence.finish(reason, nowMs))
      sequence.sampler.close()
    }
  }

  /** Why a sequence ends between two steps; null: it goes on. */
  #endOf({ isCancelled, startedMs }: Sequence, nowMs: number): FinishReason | null {
    const { answerMs } = this.#settings
    if (isCancelled) return 'cancelled'
    return answerMs > 0 && startedMs >= 0 && nowMs - startedMs > answerMs ? 'length' : null
  }

  /**
   * Gives slots to sequences that wait, in their order, as long as there is memory for their prompts. A sequence whose client does
   * not read gives its place to one whose client does.
   */
  #admit(): void {
    for (;;) {
      const place = this.#waiting.findIndex((sequence) => !sequence.isPaused)
      const sequence = this.#waiting[place]
      if (sequence === undefined) return
      if (this.#hasPlaceFor(sequence) && this.#table.assign(sequence) !== null) {
        this.#waiting.splice(place, 1)
        if (sequence.startedMs < 0) sequence.startedMs = this.#nowMs()
      } else {
        const paused = this.#table.slots.find((slot) => slot.sequence?.isPaused === true)
        if (paused === undefined) return
        this.#preempt(paused)
      }
    }
  }

  #hasPlaceFor(sequence: Sequence): boolean {
    const needed = Math.min(sequence.tokens.length + headroomCells, this.#table.book.size)
    const isAlone = this.#table.slots.every((slot) => slot.sequence === null)
    return isAlone || this.#table.availableCells >= needed
  }

  #failSlot(slot: Slot, reason: unknown): void {
    const { sequence } = slot
    if (sequence === null) return
    sequence.sampler.close()
    this.#table.clear(slot)
    this.#fail(sequence.key, reason)
  }

  #fail(key: number, reason: unknown): void {
    const code = reason instanceof ServerError ? reason.code : 'INTERNAL'
    this.#outbox.push({ kind: 'failed', key, code, message: messageOf(reason) })
  }

  #flush(): void {
    const running = this.#table.slots.filter((slot) => slot.sequence !== null).length
    const { usedCount, size } = this.#table.book
    const figures = this.#tally.figures({ running, waiting: this.#waiting.length, usedCells: usedCount, cells: size })
    if (figures !== null) this.#outbox.push({ kind: 'figures', figures })
    if (this.#outbox.length === 0) return
    this.#post(this.#outbox.splice(0))
  }
}

const goesBefore = (a: Sequence, b: Sequence): boolean =>
  a.priority < b.priority || (a.priority === b.priority && a.arrival < b.arrival)

/** A sequence whose client does not read matters less than all others. */
const mattersMore = (a: Sequence, b: Sequence): boolean => (a.isPaused === b.isPaused ? goesBefore(a, b) : b.isPaused)

/** How many tokens of the prompt are not in memory. */
const tokensLeft = ({ sequence, tokens }: Slot): number => (sequence?.tokens.length ?? 0) - tokens.length

const priorityOf = ({ sequence }: Slot): number => sequence?.priority ?? 0

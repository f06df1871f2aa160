// The slots of a context: which tokens each has in memory, who uses it, and what later requests can reuse of it. A slot that
// nobody uses keeps its tokens until the memory is needed; the one that was used longest ago goes first.

import { CellBook } from './cell-book.ts'
import type { LanguageRuntime } from './language-runtime.ts'
import type { Sequence } from './sequence.ts'

type SlotMemory = Pick<LanguageRuntime, 'cells' | 'isDivided' | 'sharesParts' | 'forget' | 'share'>

export type Slot = {
  readonly id: number
  sequence: Sequence | null
  /** The tokens in memory. */
  tokens: number[]
  cells: number[]
  /** How many of them are computed; the others are in the batch of this step. */
  computed: number
  /** The adapter that the tokens were computed with. */
  adapter: string
  usedAt: number
}

/** A beginning must be this much longer than the one at hand to be worth a copy. */
const leastGain = 16

export class SlotTable {
  readonly slots: readonly Slot[]
  readonly book: CellBook
  readonly #memory: SlotMemory
  #uses = 0

  constructor(memory: SlotMemory, count: number) {
    this.#memory = memory
    this.book = new CellBook(memory.cells)
    this.slots = Array.from({ length: count }, (_, id) => {
      return { id, sequence: null, tokens: [], cells: [], computed: 0, adapter: '', usedAt: 0 }
    })
  }

  /** A slot for the sequence; null: all are in use. The tokens that the slot has in common with it stay. */
  assign(sequence: Sequence): Slot | null {
    const idle = this.slots.filter((slot) => slot.sequence === null)
    if (idle.length === 0) return null
    const slot = this.#continuing(idle, sequence) ?? this.#vacant(idle)
    this.#cut(slot, this.#commonLength(slot, sequence))
    slot.sequence = sequence
    slot.adapter = sequence.sampling.lora
    slot.usedAt = ++this.#uses
    return slot
  }

  /**
   * Called when the first token of the prompt is about to be computed: another slot, also one in use, may have computed a longer
   * part of it by now. The result is how many tokens need not be computed.
   */
  reuse(slot: Slot, sequence: Sequence): number {
    const { donor, length } = this.#longest(slot, sequence)
    if (donor !== slot) {
      this.#cut(slot, 0)
      this.#memory.share(donor.id, slot.id, length)
      const cells = donor.cells.slice(0, length)
      this.book.share(cells)
      slot.cells = cells
      slot.tokens = donor.tokens.slice(0, length)
      slot.computed = length
      if (donor.sequence === null) donor.usedAt = ++this.#uses
    }
    return slot.tokens.length
  }

  /** What `reuse` would say now. */
  reusable(slot: Slot, sequence: Sequence): number {
    return this.#longest(slot, sequence).length
  }

  /** The slot, or another one that has so much more of the prompt that it is worth a copy, and how much that is. */
  #longest(slot: Slot, sequence: Sequence): { readonly donor: Slot; readonly length: number } {
    let donor = slot
    let longest = slot.tokens.length + leastGain
    for (const other of this.slots) {
      if (other === slot) continue
      const length = Math.min(this.#commonLength(other, sequence), other.computed)
      if (length < longest) continue
      // What the library would copy is the state after all computed tokens, also after those that the prompt does not have.
      if (!this.#memory.sharesParts && length < other.computed) continue
      longest = length
      donor = other
    }
    return { donor, length: donor === slot ? slot.tokens.length : longest }
  }

  /** Whether another slot is just computing a beginning of the prompt that is longer than what can be reused now. */
  isBeingComputed(slot: Slot, sequence: Sequence): boolean {
    const { lora, cachePrompt } = sequence.sampling
    if (!this.#memory.sharesParts || !cachePrompt) return false
    return this.slots.some((other) => {
      const rival = other.sequence
      if (other === slot || rival === null || rival.isPaused || rival.next >= 0 || !rival.hasLooked) return false
      if (rival.sampling.lora !== lora) return false
      return commonStart(rival.tokens, sequence.tokens) >= Math.max(other.computed, slot.tokens.length) + leastGain
    })
  }

  /** The tokens of the batch are computed. */
  settle(slot: Slot): void {
    slot.computed = slot.tokens.length
  }

  /** One more token of the slot is being computed. */
  append(slot: Slot, token: number): void {
    slot.tokens.push(token)
    slot.cells.push(this.book.take())
  }

  /** The sequence is done with its slot, whose tokens stay for others. */
  leave(slot: Slot): void {
    slot.sequence = null
    slot.usedAt = ++this.#uses
  }

  /** Nothing of the slot stays. */
  clear(slot: Slot): void {
    slot.sequence = null
    this.#cut(slot, 0)
  }

  /** Frees cells of slots that nobody uses, the oldest first, until there are `count`. False: there are not so many. */
  makeRoom(count: number): boolean {
    while (this.book.freeCount < count) {
      const kept = this.slots.filter((slot) => slot.sequence === null && slot.tokens.length > 0)
      if (kept.length === 0) return false
      this.#cut(oldestOf(kept), 0)
    }
    return true
  }

  /** Cells that are free or could be freed without stopping a sequence. */
  get availableCells(): number {
    const idle = this.slots.filter((slot) => slot.sequence === null)
    return this.book.freeCount + idle.reduce((sum, slot) => sum + this.book.soleCount(slot.cells), 0)
  }

  /** The idle slot whose tokens the sequence goes on with: at least half of the slot's tokens are its own. */
  #continuing(idle: readonly Slot[], sequence: Sequence): Slot | null {
    let best: Slot | null = null
    let longest = 0
    for (const slot of idle) {
      const length = this.#commonLength(slot, sequence)
      if (length <= longest || length * 2 < slot.tokens.length) continue
      longest = length
      best = slot
    }
    return best
  }

  /**
   * The library computes neighbouring memories together, and others one after the other: four answers took 1.2 times as long with gaps between them. So
   * the older half of the idle slots is looked through for the one with the most neighbours in use.
   */
  #vacant(idle: readonly Slot[]): Slot {
    if (!this.#memory.isDivided) return oldestOf(idle)
    const isUsed = (id: number): boolean => (this.slots[id]?.sequence ?? null) !== null
    const neighbours = ({ id }: Slot): number => Number(isUsed(id - 1)) + Number(isUsed(id + 1))
    const older = idle.toSorted((a, b) => ageOf(a) - ageOf(b)).slice(0, Math.ceil(idle.length / 2))
    return older.reduce((best, slot) => (neighbours(slot) > neighbours(best) ? slot : best))
  }

  /** How many tokens at the beginning are the same. The last token of a prompt is computed in any case, for what follows it. */
  #commonLength(slot: Slot, { tokens, sampling }: Sequence): number {
    if (slot.adapter !== sampling.lora || !sampling.cachePrompt) return 0
    return Math.min(commonStart(slot.tokens, tokens), tokens.length - 1)
  }

  #cut(slot: Slot, length: number): void {
    if (slot.tokens.length <= length) return
    // A model that cannot go back has dropped all of it.
    const kept = this.#memory.forget(slot.id, length) ? length : 0
    this.book.release(slot.cells.splice(kept))
    slot.tokens.length = kept
    slot.computed = Math.min(slot.computed, kept)
  }
}

function commonStart(a: readonly number[], b: readonly number[]): number {
  const most = Math.min(a.length, b.length)
  let length = 0
  while (length < most && a[length] === b[length]) length++
  return length
}

/** An empty slot is older than any other. */
const ageOf = ({ tokens, usedAt }: Slot): number => (tokens.length === 0 ? -1 : usedAt)

const oldestOf = (slots: readonly Slot[]): Slot =>
  slots.reduce((oldest, slot) => (ageOf(slot) < ageOf(oldest) ? slot : oldest))

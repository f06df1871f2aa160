// Which beginnings of prompts an instance had: a prompt that begins alike is computed sooner where that beginning is in memory.

/** Lengths in bytes of beginnings that are compared. */
const lengths = [128, 256, 512, 1024, 2048, 4096, 8192, 16384] as const

/** Of one instance: far more beginnings than it keeps in memory. */
const mostMarks = 4096

/** One number for each length that `text` has. Different beginnings rarely have the same number, and then nothing is wrong but the guess. */
export function marksOf(text: Uint8Array): number[] {
  const marks: number[] = []
  let hash = 0x811c9dc5
  let at = 0
  for (const [i, length] of lengths.entries()) {
    if (length > text.length) break
    for (; at < length; at++) hash = Math.imul(hash ^ (text[at] as number), 0x01000193)
    marks.push((hash >>> 0) * lengths.length + i)
  }
  return marks
}

export class PromptMarks {
  /** The ones used longest ago come first. */
  readonly #known = new Set<number>()

  note(marks: readonly number[]): void {
    for (const mark of marks) {
      this.#known.delete(mark)
      this.#known.add(mark)
    }
    for (const oldest of this.#known) {
      if (this.#known.size <= mostMarks) return
      this.#known.delete(oldest)
    }
  }

  /** The share of the beginnings that are known, from 0 to 1. */
  knownShare(marks: readonly number[]): number {
    return marks.length === 0 ? 0 : (marks.findLastIndex((mark) => this.#known.has(mark)) + 1) / marks.length
  }
}

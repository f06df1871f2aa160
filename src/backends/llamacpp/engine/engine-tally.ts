// What the steps of an engine took and did: for the budget of prompts, and for metrics.

import type { EngineFigures } from '../engine-protocol.ts'
import type { Sequence } from './sequence.ts'
import type { StepTimes } from './prompt-budget.ts'

/** The weight of the newest measurement. */
const newest = 0.2
type State = Pick<EngineFigures, 'running' | 'waiting' | 'usedCells' | 'cells'>

export class EngineTally {
  readonly #nowMs: () => number
  /** By the number of answers in a step. */
  readonly #answerMs: number[] = []
  #promptTokenMs = 0
  #counts = noCounts()
  #told = ''

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  stepped(answers: number, prompts: number, tookMs: number): void {
    this.#counts.steps++
    this.#counts.promptTokens += prompts
    if (prompts === 0) this.#answerMs[answers] = blend(this.#answerMs[answers] ?? 0, tookMs)
    else {
      const rest = tookMs - this.#expectedMs(answers)
      if (rest > 0) this.#promptTokenMs = blend(this.#promptTokenMs, rest / prompts)
    }
  }

  times(answers: number): StepTimes {
    return { answerMs: this.#expectedMs(answers), promptTokenMs: this.#promptTokenMs }
  }

  /** A prompt was compared with what is in memory. */
  looked(tokens: number, cached: number): void {
    this.#counts.promptTokensAsked += tokens
    this.#counts.cachedTokens += cached
  }

  preempted(): void {
    this.#counts.preemptions++
  }

  said(sequence: Sequence): void {
    const nowMs = this.#nowMs()
    this.#counts.generatedTokens++
    if (sequence.firstTokenMs < 0) sequence.firstTokenMs = nowMs
    if (sequence.outputTokens === 1) this.#counts.firstTokenMs.push(nowMs - sequence.bornMs)
    else this.#counts.interTokenMs.push(nowMs - sequence.lastTokenMs)
    sequence.lastTokenMs = nowMs
  }

  /** What happened since the last call; null: nothing. */
  figures(state: State): EngineFigures | null {
    const told = `${state.running} ${state.waiting} ${state.usedCells}`
    if (this.#counts.steps === 0 && told === this.#told) return null
    this.#told = told
    const figures = { ...state, ...this.#counts }
    this.#counts = noCounts()
    return figures
  }

  /** What a step with so many answers takes: as measured, or as the nearest number that was measured and the tokens between. */
  #expectedMs(answers: number): number {
    const furthest = Math.max(answers, this.#answerMs.length)
    for (let distance = 0; distance <= furthest; distance++) {
      const fewer = this.#answerMs[answers - distance]
      if (fewer !== undefined) return fewer + distance * this.#promptTokenMs
      const more = this.#answerMs[answers + distance]
      if (more !== undefined) return Math.max(more / 2, more - distance * this.#promptTokenMs)
    }
    return 0
  }
}

const blend = (before: number, now: number): number => (before === 0 ? now : before + newest * (now - before))

const noCounts = () => ({
  promptTokens: 0,
  promptTokensAsked: 0,
  cachedTokens: 0,
  generatedTokens: 0,
  preemptions: 0,
  steps: 0,
  firstTokenMs: [] as number[],
  interTokenMs: [] as number[],
})

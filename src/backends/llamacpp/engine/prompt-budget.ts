// How many prompt tokens a step computes beside the tokens of running answers. A long prompt must not hold up those who read
// an answer, and must not wait for ever itself.

export type StepTimes = {
  /** What the last steps with answers only took for about so many answers; 0: not known. */
  readonly answerMs: number
  /** What one prompt token adds to a step; 0: not known. */
  readonly promptTokenMs: number
}

/** Whatever the answers alone take, a step may take this long. */
const quietStepMs = 50
/** Beside answers, prompts may make a step longer by this. */
const stretch = 1.4
/** A step is never made for less, because a step has costs of its own. */
const leastTokens = 8
/** Before anything was measured. */
const firstTokens = 64

/** `answers` sequences answer, `prompts` wait for their prompts. */
export function promptBudget(answers: number, prompts: number, times: StepTimes, most: number): number {
  if (prompts === 0) return 0
  if (answers === 0) return most
  if (times.promptTokenMs === 0 || times.answerMs === 0) return Math.min(most, firstTokens)
  // Where more sequences wait for their first token than for their next one, the first tokens count for more.
  const weight = Math.max(1, prompts / answers)
  const targetMs = Math.max(quietStepMs, times.answerMs * stretch) * weight
  const tokens = Math.floor((targetMs - times.answerMs) / times.promptTokenMs)
  return Math.min(most, Math.max(leastTokens, tokens))
}

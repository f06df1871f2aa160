// How many prompt tokens a step computes beside the tokens of running answers. A long prompt must not hold up those who read
// an answer, and must not wait for ever itself.

export type StepTimes = {
  /** What the last steps with answers only took for about so many answers; 0: not known. */
  readonly answerMs: number
  /** What one prompt token adds to a step; 0: not known. */
  readonly promptTokenMs: number
}

export type PromptWait = { readonly tokens: number; readonly waitedMs: number }

/** Whatever the answers alone take, a step may take this long. */
const quietStepMs = 20
/** Beside answers, prompts may make a step longer by this. */
const stretch = 1.4
/** No step is planned to take longer: requests that come meanwhile wait for its end. */
const longestStepMs = 2000
/** So many go on in every step: a prompt must not wait for ever. */
const leastTokens = 2
/** Before anything was measured. */
const firstTokens = 64
/** A wait is short or long beside this, however short the prompt is: nobody reads an answer with pauses gladly for a first token so much sooner. */
const patienceMs = 500

/** How many times as long as its prompt alone would take a request has waited for its first token; 1 at the beginning. */
export function responseRatio({ tokens, waitedMs }: PromptWait, { promptTokenMs }: StepTimes): number {
  return promptTokenMs === 0 ? 1 : 1 + waitedMs / Math.max(patienceMs, tokens * promptTokenMs)
}

/** `answers` sequences answer, `prompts` wait for their first tokens. */
export function promptBudget(answers: number, prompts: readonly PromptWait[], times: StepTimes, most: number): number {
  if (prompts.length === 0) return 0
  const { answerMs, promptTokenMs } = times
  if (promptTokenMs === 0) return answers === 0 ? most : Math.min(most, firstTokens)
  if (answers === 0) return tokensIn(longestStepMs, promptTokenMs, most)
  if (answerMs === 0) return Math.min(most, firstTokens)
  // Where more wait for their first token than for their next one, or wait for long, first tokens count for more. The square makes
  // one long step of many requests that come together: several shorter ones would hold up those of them that begin to answer. Who has
  // waited for many others counts for more than his share: the last of them must not wait for the answers of all others too.
  const urgency = prompts.reduce((sum, prompt) => sum + responseRatio(prompt, times) ** 1.5, 0)
  const targetMs = Math.max(quietStepMs, answerMs * stretch) * Math.max(1, urgency / answers) ** 2
  return tokensIn(Math.min(targetMs, Math.max(longestStepMs, answerMs * stretch)) - answerMs, promptTokenMs, most)
}

/**
 * The budget in whole prompts; `left` says how many tokens are left of each, in their order. Who gets a first token must not wait for a part
 * of the next prompt. And the last few of many prompts would hold up all those that have just begun to answer: where they are fewer
 * than the step computes, it computes them too. A prompt that is longer than the budget gets all of it.
 */
export function wholePrompts(budget: number, left: readonly number[], most: number): number {
  let [tokens, count] = [0, 0]
  for (const each of left) {
    if (tokens + each > budget) continue
    tokens += each
    count++
  }
  if (count === 0) return budget
  const all = left.reduce((sum, each) => sum + each, 0)
  return left.length < 2 * count && all <= Math.min(2 * tokens, most) ? all : tokens
}

const tokensIn = (ms: number, tokenMs: number, most: number): number =>
  Math.min(most, Math.max(leastTokens, Math.floor(ms / tokenMs)))

// What llama.cpp's own server said to many short prompts, token by token, and how an answer of ours compares with it.

import { readFileSync } from 'node:fs'

export type RecordedAnswer = {
  readonly question: string
  readonly tokens: readonly number[]
  /** By how much the logarithm of each token's probability leads that of the next one. */
  readonly leads: readonly number[]
}

/** Recorded by test/fixtures/openai/llama-server/record.py. */
export function recordedAnswers(): readonly RecordedAnswer[] {
  const file = new URL('../fixtures/openai/llama-server/tokens.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { cases: RecordedAnswer[] }).cases
}

/** The lead of the recorded token at the first difference; null: the answers are the same. */
export function leadOfDifference(recorded: RecordedAnswer, tokens: readonly number[]): number | null {
  const place = recorded.tokens.findIndex((token, at) => tokens[at] !== token)
  return place < 0 ? null : (recorded.leads[place] ?? Infinity)
}

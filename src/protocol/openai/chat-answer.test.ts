import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ChatAnswer } from './chat-answer.ts'
import type { Choice, TokenLogprob } from './generation-answer.ts'

const facts = { id: 'x', created: 0, model: 'm', fingerprint: null }
const likely = (token: string, logprob: number, top: readonly TokenLogprob[] = []): TokenLogprob => ({ token, logprob, bytes: null, top }) // prettier-ignore
const chosen = likely('c', -5, [likely('a', -1), likely('b', -2), likely('c', -5)])
const choice: Choice = { index: 0, content: 'c', reasoning: '', calls: [], logprobs: [chosen], finishReason: 'stop' }

type Told = { readonly choices: readonly [{ readonly delta: object; readonly logprobs: { readonly content: readonly { readonly top_logprobs: readonly { readonly token: string }[] }[] } | null }] } // prettier-ignore
const topIn = (json: unknown): (readonly string[])[] | undefined =>
  (json as Told).choices[0].logprobs?.content.map(({ top_logprobs: top }) => top.map(({ token }) => token))

test('a chat lists as many alternatives of a token as were asked for, also where the model tells of one more', () => {
  assert.deepEqual(topIn(new ChatAnswer(facts, 2, false).whole([choice], null)), [['a', 'b']])
  assert.deepEqual(topIn(new ChatAnswer(facts, 0, false).whole([choice], null)), [[]])
  assert.equal(topIn(new ChatAnswer(facts, null, false).whole([choice], null)), undefined)
})

test('a piece of a stream without text has the probabilities of its tokens', () => {
  const [event] = new ChatAnswer(facts, 1, false).delta(choice, [], [chosen])
  assert.deepEqual(topIn(event?.json), [['a']])
  assert.deepEqual((event?.json as Told | undefined)?.choices[0].delta, { content: '' })
})

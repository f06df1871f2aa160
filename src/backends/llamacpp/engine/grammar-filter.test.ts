import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GrammarFilter } from './grammar-filter.ts'
import type { SamplingSession } from './sampling-session.ts'

/** A grammar that takes `callMs` of the processor in each call, and allows no token but the last. */
function slowSession(callMs: number): { readonly session: SamplingSession; readonly calls: () => number } {
  let calls = 0
  const words = 3
  const library = {
    grammar: () => 1,
    acceptToken: () => undefined,
    freeSampler: () => undefined,
    applySampler: (_: number, candidates: { size: number; selected: number }) => {
      calls++
      candidates.selected = Math.min(candidates.size, words) - 1
    },
  }
  const session = { library, vocabulary: 1, vocabularySize: 20_000, isEnd: () => false, threadUs: () => calls * callMs * 1000 } // prettier-ignore
  return { session: session as unknown as SamplingSession, calls: () => calls }
}

test('a grammar that takes more than a second of the processor for one token fails its request', () => {
  const slow = slowSession(1001)
  const filter = new GrammarFilter(slow.session, 'root ::= "a"', 0, 'grammar')
  const pick = (): number => filter.pick(1, new Float32Array(20_000))
  assert.throws(pick, { code: 'INVALID_ARG', message: /'grammar' took \d+ ms for one token, at most 1000 are allowed/ })
  const quick = slowSession(10)
  new GrammarFilter(quick.session, 'root ::= "a"', 0, 'grammar').pick(1, new Float32Array(20_000))
  assert.ok(quick.calls() > 0)
})

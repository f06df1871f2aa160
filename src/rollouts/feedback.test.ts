import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { tensorOfNumbers, tensorOfStrings } from '../tensor/typed-values.ts'
import { FeedbackMemory, readFeedback, type FeedbackEntry } from './feedback.ts'
import type { DriftRule } from './judge/metric-rule.ts'
import { metricDefaults } from './metric-defaults.ts'
import { driftClassOf, predictionOf } from './prediction.ts'

const hour = 3600e9

describe('the body of a call', () => {
  test('has labels, verdicts and scores', () => {
    const { entries, problem } = readFeedback({
      feedback: [{ id: 'a', label: 7 }, { id: 'b', correct: false }, { id: 'c', score: 0.8 }, { id: 'd', score: 1, name: 'click' }], // prettier-ignore
    })
    assert.equal(problem, '')
    assert.deepEqual(entries, [
      { kind: 'label', id: 'a', label: 7 },
      { kind: 'correct', id: 'b', isCorrect: false },
      { kind: 'score', id: 'c', name: 'score', score: 0.8 },
      { kind: 'score', id: 'd', name: 'click', score: 1 },
    ])
  })

  test('with a mistake names the entry and the rule', () => {
    const problemOf = (item: unknown): string => readFeedback({ feedback: [{ id: 'ok', label: 1 }, item] }).problem
    assert.match(readFeedback([]).problem, /the body must be/)
    assert.match(problemOf(5), /^feedback\[1\] must be an object/)
    assert.match(problemOf({ label: 1 }), /must have an 'id'/)
    assert.match(problemOf({ id: 'x'.repeat(257), label: 1 }), /1 to 256 characters/)
    assert.match(problemOf({ id: 'a' }), /exactly one of/)
    assert.match(problemOf({ id: 'a', label: 1, correct: true }), /exactly one of/)
    assert.match(problemOf({ id: 'a', score: null }), /'score' must be a finite number/)
    assert.match(problemOf({ id: 'a', correct: 'yes' }), /'correct' must be true or false/)
    assert.match(problemOf({ id: 'a', label: {} }), /'label' must be/)
    assert.match(problemOf({ id: 'a', labl: 1 }), /unknown key 'labl'/)
    const many = Array.from({ length: 1001 }, (_, i) => ({ id: String(i), label: 1 }))
    assert.match(readFeedback({ feedback: many }).problem, /at most 1000 entries, got 1001/)
  })
})

describe('the memory of answers', () => {
  const label: FeedbackEntry = { kind: 'label', id: 'a', label: 7 }

  test('finds the arm and compares the label; a second feedback does not count', () => {
    const memory = new FeedbackMemory()
    const answer = { arm: 1, isJudged: true, bucket: 3, prediction: '7' } as const
    memory.remember('a', answer, 0)
    assert.deepEqual(memory.find(label, 1), { kind: 'correctness', of: answer, isWrong: false })
    assert.deepEqual(memory.find({ kind: 'correct', id: 'a', isCorrect: false }, 1), { kind: 'repeated' })
    assert.equal(memory.find({ kind: 'score', id: 'a', name: 'click', score: 1 }, 1).kind, 'score')
    assert.equal(memory.find({ kind: 'score', id: 'a', name: 'click', score: 1 }, 1).kind, 'repeated')
    assert.deepEqual(memory.find({ ...label, id: 'b' }, 1), { kind: 'unknown' })
  })

  test('without a prediction takes verdicts, not labels', () => {
    const memory = new FeedbackMemory()
    memory.remember('a', { arm: 0, isJudged: true, bucket: null, prediction: null }, 0)
    assert.equal(memory.find(label, 1).kind, 'no-prediction')
    assert.partialDeepStrictEqual(memory.find({ kind: 'correct', id: 'a', isCorrect: false }, 1), { isWrong: true })
  })

  test('forgets after 24 hours, and the oldest beyond 100,000', () => {
    const memory = new FeedbackMemory()
    const answer = { arm: 0, isJudged: true, bucket: null, prediction: '7' } as const
    memory.remember('a', answer, 0)
    assert.equal(memory.find(label, 24 * hour).kind, 'unknown')
    for (let i = 0; i < 100_001; i++) memory.remember(`n${i}`, answer, 25 * hour)
    assert.equal(memory.size, 100_000)
    assert.equal(memory.find({ ...label, id: 'n0' }, 25 * hour).kind, 'unknown')
    memory.remember('late', answer, 50 * hour)
    assert.equal(memory.size, 1)
  })
})

test('the prediction of an answer', () => {
  const policy = (kind: 'top1' | 'exact' | 'threshold') => ({ output: 'OUT', kind, threshold: 0.5 })
  const scores = tensorOfNumbers('OUT', 'FP32', [1, 3], Float32Array.of(0.1, 0.7, 0.2))
  assert.equal(predictionOf(scores, policy('top1')), '1')
  assert.equal(predictionOf(scores, policy('exact')), null)
  assert.equal(predictionOf(tensorOfNumbers('OUT', 'FP32', [2, 1], Float32Array.of(1, 2)), policy('top1')), null)
  assert.equal(predictionOf(tensorOfNumbers('OUT', 'FP32', [1], Float32Array.of(0.7)), policy('threshold')), '1')
  assert.equal(predictionOf(tensorOfNumbers('OUT', 'INT64', [1], BigInt64Array.of(12n)), policy('exact')), '12')
  assert.equal(predictionOf(tensorOfNumbers('OUT', 'BOOL', [1], Uint8Array.of(1)), policy('exact')), 'true')
  assert.equal(predictionOf(tensorOfStrings('OUT', [1], ['cat']), policy('exact')), 'cat')
})

test('the class of an answer for drift', () => {
  const top1 = metricDefaults('drift') as DriftRule
  const scores = tensorOfNumbers('OUT', 'FP32', [1, 3], Float32Array.of(0.1, 0.7, 0.2))
  assert.equal(driftClassOf(scores, top1), 1)
  const bins = { ...top1, bins: [0.1, 0.5] }
  const one = (value: number): number => driftClassOf(tensorOfNumbers('OUT', 'FP32', [1], Float32Array.of(value)), bins)
  assert.deepEqual([one(0), one(0.3), one(9)], [0, 1, 2])
  assert.equal(driftClassOf(tensorOfStrings('OUT', [1], ['cat']), top1), -1)
})

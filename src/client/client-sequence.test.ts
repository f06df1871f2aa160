import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClientSequence } from './client-sequence.ts'
import type { InferOptions } from './infer-request.ts'
import { InferResult } from './infer-result.ts'

const answer = new InferResult({ modelName: 'M', modelVersion: '1', id: '', parameters: {} }, [])

function sequenceUnderTest(failures: readonly number[] = []) {
  const steps: InferOptions['sequence'][] = []
  let underWay = 0
  const infer = async (_model: string, _inputs: object, options: InferOptions): Promise<InferResult> => {
    steps.push(options.sequence)
    underWay++
    assert.equal(underWay, 1, 'one request at a time')
    await new Promise(setImmediate)
    underWay--
    if (failures.includes(steps.length - 1)) throw new Error('refused')
    return answer
  }
  return { sequence: new ClientSequence(infer, 'M', { id: 7 }), steps }
}

test('the first request starts the sequence, end() ends it, and they go out one at a time', async () => {
  const { sequence, steps } = sequenceUnderTest()
  await Promise.all([sequence.infer({}), sequence.infer({}), sequence.end({})])
  assert.deepEqual(steps, [
    { id: 7, start: true, end: false },
    { id: 7, start: false, end: false },
    { id: 7, start: false, end: true },
  ])
  assert.equal(sequence.isEnded, true)
  await assert.rejects(sequence.infer({}), /sequence 7 of model 'M' has ended/)
})

test('a start that failed is started again by the next request', async () => {
  const { sequence, steps } = sequenceUnderTest([0])
  await assert.rejects(sequence.infer({}), /refused/)
  await sequence.infer({})
  assert.deepEqual(
    steps.map((step) => step?.start),
    [true, true],
  )
})

test('sequences have ids of their own that a number holds exactly', () => {
  const ids = Array.from({ length: 1000 }, () => new ClientSequence(async () => answer, 'M').id)
  assert.equal(new Set(ids).size, ids.length)
  assert.ok(ids.every((id) => Number.isSafeInteger(id) && Number(id) > 0))
})

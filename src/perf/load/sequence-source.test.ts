import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SequenceSource, type SequenceSettings } from './sequence-source.ts'

const settings: SequenceSettings = {
  startId: 10,
  idCount: 0,
  length: 3,
  lengthVariation: 0,
  seed: 1,
  share: 0,
  shares: 1,
}

test('the first request of a sequence starts it and the last one ends it', () => {
  const sequence = new SequenceSource(settings, [1]).begin()
  const stamps = [sequence.next(false), sequence.next(false), sequence.next(false)]
  assert.deepEqual(stamps, [
    { id: 10, isStart: true, isEnd: false },
    { id: 10, isStart: false, isEnd: false },
    { id: 10, isStart: false, isEnd: true },
  ])
  assert.equal(sequence.isOver, true)
})

test('a sequence can be ended early, even with its first request', () => {
  const source = new SequenceSource(settings, [1])
  const begun = source.begin()
  begun.next(false)
  assert.deepEqual(begun.next(true), { id: 10, isStart: false, isEnd: true })
  assert.deepEqual(source.begin().next(true), { id: 11, isStart: true, isEnd: true })
})

test('ids go round in their range, and threads never share one', () => {
  const source = new SequenceSource({ ...settings, idCount: 3 }, [1])
  assert.deepEqual([1, 2, 3, 4].map(() => source.begin().id), [10, 11, 12, 10]) // prettier-ignore
  const ids = [0, 1].flatMap((share) => {
    const half = new SequenceSource({ ...settings, share, shares: 2 }, [1])
    return [half.begin().id, half.begin().id]
  })
  assert.deepEqual(ids, [10, 12, 11, 13])
})

test('lengths vary within their share around the given one; without one they are those of the data', () => {
  const varied = new SequenceSource({ ...settings, length: 20, lengthVariation: 0.2 }, [1])
  const lengths = new Set<number>()
  for (let round = 0; round < 400; round++) {
    const sequence = varied.begin()
    while (!sequence.isOver) sequence.next(false)
    lengths.add(sequence.step)
  }
  assert.deepEqual(Math.min(...lengths), 16)
  assert.deepEqual(Math.max(...lengths), 24)
  const played = new SequenceSource({ ...settings, length: null }, [4, 2])
  const steps = [played.begin(), played.begin()].map((sequence) => {
    while (!sequence.isOver) sequence.next(false)
    return [sequence.stream, sequence.step]
  })
  assert.deepEqual(steps, [[0, 4], [1, 2]]) // prettier-ignore
})

test('an id is not used again while its sequence runs, and threads have ids of their own', () => {
  const settings = { startId: 10, idCount: 5, length: 3, lengthVariation: 0, seed: 1 }
  const [even, odd] = [0, 1].map((share) => new SequenceSource({ ...settings, share, shares: 2 }, [1]))
  assert.ok(even !== undefined && odd !== undefined)
  const long = even.begin()
  assert.equal(long.id, 10)
  const ids: number[] = []
  for (let at = 0; at < 6; at++) {
    const { id } = even.begin()
    ids.push(id)
    even.release(id)
  }
  assert.deepEqual(ids, [12, 14, 12, 14, 12, 14], '10 is still in use')
  even.release(long.id)
  assert.equal(even.begin().id, 10)
  const others = [odd.begin().id, odd.begin().id]
  assert.deepEqual(others, [11, 13])
})

import assert from 'node:assert/strict'
import test from 'node:test'
import { readSamplingParameters } from '../../../llm/sampling-parameters.ts'
import { Sequence } from './sequence.ts'
import { SlotTable, type Slot } from './slot-table.ts'

const sampling = readSamplingParameters([])
const sampler = {
  cumulativeLogprob: 0,
  isComplete: false,
  pick: () => ({ token: 0, logprob: null }),
  close: () => undefined,
}
let serial = 0
/** A prompt of one token that no other prompt has. */
function sequence(): Sequence {
  const order = {
    kind: 'generate',
    key: ++serial,
    text: '',
    sampling,
    priority: 0,
    isStreamed: false,
    waitedMs: 0,
  } as const
  return new Sequence(order, Int32Array.of(serial), sampler, serial, 0)
}

function tableOf(isDivided: boolean): { table: SlotTable; enter: () => Slot } {
  const memory = { cells: 64, isDivided, sharesParts: true, forget: () => true, share: () => undefined }
  const table = new SlotTable(memory, 8)
  const enter = (): Slot => {
    const next = sequence()
    const slot = table.assign(next)
    assert.ok(slot !== null)
    table.append(slot, next.tokens[0] as number)
    table.settle(slot)
    return slot
  }
  return { table, enter }
}

test('with a memory for each sequence, those that run are neighbours, and the younger half of the kept prompts stays', () => {
  const { table, enter } = tableOf(true)
  const first = Array.from({ length: 8 }, enter)
  assert.deepEqual(first.map(({ id }) => id), [0, 1, 2, 3, 4, 5, 6, 7]) // prettier-ignore
  for (const id of [0, 5, 1, 2, 3, 4]) table.leave(first[id] as Slot)
  assert.equal(enter().id, 5, 'slots 6 and 7 are in use')
  assert.equal(enter().id, 0, 'slot 4 is in the younger half')
  assert.equal(enter().id, 1)
})

test('with one memory for all, the slot that was used longest ago is taken', () => {
  const { table, enter } = tableOf(false)
  const first = Array.from({ length: 8 }, enter)
  for (const id of [3, 0, 5]) table.leave(first[id] as Slot)
  assert.deepEqual([enter().id, enter().id, enter().id], [3, 0, 5])
})

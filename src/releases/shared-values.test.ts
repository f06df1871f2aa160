import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  longestSharedText,
  readHeardFeedback,
  readPresence,
  readSharedPins,
  readSharedRecord,
} from './shared-values.ts'

/** What somebody else may have written under a key. */
const hostile = [
  '',
  'garbage',
  'null',
  '5',
  '"x"',
  '[]',
  '{}',
  '['.repeat(100_000),
  `"${'x'.repeat(longestSharedText)}"`,
]

test('what a server said is believed as far as it has the form', () => {
  for (const text of hostile.filter((one) => one !== '{}'))
    assert.equal(readPresence('u', text), null, text.slice(0, 20))
  const models = { a: ['1', 7, null], b: 5, __proto__: ['1'] }
  const told = readPresence('u', JSON.stringify({ version: {}, startedMs: 1e300, pressure: 'x', reason: 'r'.repeat(5000), models, untold: [] })) // prettier-ignore
  assert.deepEqual(told, { url: 'u', version: '', startedMs: 0, isReady: false, reason: 'r'.repeat(1000), pressure: null, models: { a: ['1'], b: [] }, untold: 0 }) // prettier-ignore
  const many = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`m${i}`, ['1']]))
  assert.equal(Object.keys(readPresence('u', JSON.stringify({ models: many }))?.models ?? {}).length, 2000)
})

test('feedback that is no feedback is left out', () => {
  for (const text of hostile) assert.equal(readHeardFeedback(text), null, text.slice(0, 20))
  const heard = (entries: unknown) => readHeardFeedback(JSON.stringify({ server: 's', model: 'm', entries }))
  for (const entries of [5, [null], [{ id: 5, kind: 'label', label: 1 }], [{ id: 'a', kind: 'label', label: {} }], [{ id: 'a', kind: 'score', name: 'n' }], Array.from({ length: 1001 }, () => ({ id: 'a', kind: 'label', label: 1 }))]) assert.equal(heard(entries), null) // prettier-ignore
  const good = [{ kind: 'label', id: 'a', label: 7 }, { kind: 'correct', id: 'b', isCorrect: false }, { kind: 'score', id: 'c', name: 'n', score: 1 }] // prettier-ignore
  assert.deepEqual(heard(good)?.entries, good)
})

test('a record that is none, or another one, is left out', () => {
  for (const text of hostile) assert.equal(readSharedRecord('a', text), null, text.slice(0, 20))
  const good = { name: 'a', model: 'm', createdMs: 1, plan: { kind: 'rollout' }, state: {}, notes: [], arms: [{ arm: 'stable', model: 'm', version: '1', hash: '' }] } // prettier-ignore
  assert.deepEqual(readSharedRecord('a', JSON.stringify(good)), good)
  for (const wrong of [
    { name: 'b' },
    { model: 5 },
    { plan: [] },
    { state: null },
    { arms: [] },
    { arms: [{}] },
    { createdMs: 'x' },
    { notes: 5 },
  ]) {
    // prettier-ignore
    assert.equal(readSharedRecord('a', JSON.stringify({ ...good, ...wrong })), null, JSON.stringify(wrong))
  }
})

test('pins of another form are left out, and the others stay', () => {
  const pins = readSharedPins({ 'm\nstandard': '"2"', 'm\nlabels': '{"a":5}', 'm\nheld': '[1]', 'm\n__proto__': '{}', 'm\nnewest': 'garbage', x: '1', 'n\nlabels': '{"a":"3"}' }) // prettier-ignore
  assert.deepEqual(pins, [
    { model: 'm', repository: '', standard: '2', newest: '', held: [], labels: {} },
    { model: 'n', repository: '', standard: '', newest: '', held: [], labels: { a: '3' } },
  ])
})

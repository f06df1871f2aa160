import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TraceHistory } from './trace-history.ts'

const stamp = (id: number, name: string, us: number): string =>
  JSON.stringify({ id, timestamps: [{ name, ns: us * 1000 }] })

const requestOf = (id: number, model: string, parent = 0): string[] => [
  JSON.stringify({ id, model_name: model, model_version: 1, ...(parent === 0 ? {} : { parent_id: parent }) }),
  stamp(id, 'REQUEST_START', 1000),
  stamp(id, 'QUEUE_START', 1000),
  stamp(id, 'COMPUTE_START', 2000),
  stamp(id, 'COMPUTE_INPUT_END', 2500),
  stamp(id, 'COMPUTE_OUTPUT_START', 5000),
  stamp(id, 'COMPUTE_END', 5500),
  stamp(id, 'REQUEST_END', 6000),
]

test('a traced request shows its phases from its beginning, its steps one level below', () => {
  const history = new TraceHistory(() => 42)
  history.addRecords([...requestOf(1, 'both'), ...requestOf(2, 'step', 1), '{"id":1,"activity":"TENSOR_QUEUE_INPUT"}'])
  const [trace] = history.list('', 0)
  assert.equal(trace?.model, 'both')
  assert.equal(trace?.duration_ms, 5)
  assert.equal(trace?.ended, 42)
  const queue = trace?.spans.find(({ name, depth }) => name === 'queue' && depth === 1)
  assert.deepEqual([queue?.start_ms, queue?.duration_ms], [0, 1])
  assert.ok(trace?.spans.some(({ name, depth }) => name === 'step' && depth === 2))
  assert.ok(trace?.spans.some(({ name, depth }) => name === 'compute' && depth === 3))
})

test('the newest 200 are kept, and found by model and by time', () => {
  const history = new TraceHistory(() => 0)
  for (let i = 1; i <= 300; i++) history.addRecords(requestOf(i, i % 2 === 0 ? 'even' : 'odd'))
  assert.equal(history.list('', 0).length, 200)
  assert.equal(history.list('even', 0).length, 100)
  assert.equal(history.list('', 5.1).length, 0)
})

test('a stream of any length is kept as its moments, and shows its end', () => {
  const history = new TraceHistory(() => 0)
  const [begin = '', ...stamps] = requestOf(1, 'stream')
  const answers = Array.from({ length: 10_000 }, (_, i) => stamp(1, 'INFER_RESPONSE_COMPLETE', 5500 + i))
  for (let i = 0; i < 200; i++) history.addRecords([begin, ...answers, ...stamps])
  const traces = history.list('', 0)
  assert.equal(traces.length, 200)
  assert.equal(traces[0]?.duration_ms, 5)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ModelTensor } from './model-tensor.ts'
import { Outbox } from './outbox.ts'
import type { FromWorker, TensorMessage, WorkerMessage } from './worker-protocol.ts'

function outboxUnderTest(): { outbox: Outbox; envelopes: FromWorker[] } {
  const envelopes: FromWorker[] = []
  return { outbox: new Outbox((envelope) => void envelopes.push(envelope)), envelopes }
}

const response = (outputs: readonly TensorMessage[]): WorkerMessage => ({
  kind: 'response',
  key: 1,
  outputs,
  parameters: null,
  error: null,
  isFinal: false,
  isFlagOnly: false,
})
const bytesTensor = (bytes: Uint8Array): ModelTensor => new ModelTensor('T', 'UINT8', [bytes.length], bytes)
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('messages of one turn leave in one envelope, in order', async () => {
  const { outbox, envelopes } = outboxUnderTest()
  outbox.add({ kind: 'started' })
  await Promise.resolve()
  outbox.add({ kind: 'executed' })
  assert.equal(envelopes.length, 0)
  await nextTurn()
  assert.deepEqual(
    envelopes.map(({ messages }) => messages.map(({ kind }) => kind)),
    [['started', 'executed']],
  )
})

test('64 messages leave at once: a model that never waits does not pile them up', () => {
  const { outbox, envelopes } = outboxUnderTest()
  for (let i = 0; i < 200; i++) outbox.add({ kind: 'executed' })
  assert.deepEqual(
    envelopes.map(({ messages }) => messages.length),
    [64, 64, 64],
  )
})

test('small outputs are copied once, into one buffer that fits, each aligned to eight bytes', async () => {
  const { outbox, envelopes } = outboxUnderTest()
  const first = Uint8Array.of(1, 2, 3)
  outbox.addWithTensors([bytesTensor(first), bytesTensor(Uint8Array.of(4))], response)
  first.fill(0)
  await nextTurn()
  const [envelope] = envelopes
  assert.deepEqual(
    envelope?.buffers.map((buffer) => buffer.byteLength),
    [16],
  )
  const [message] = envelope?.messages ?? []
  assert.ok(message?.kind === 'response')
  assert.deepEqual(
    message.outputs.map(({ buffer, offset, length }) => [buffer, offset, length]),
    [
      [0, 0, 3],
      [0, 8, 1],
    ],
  )
  assert.deepEqual([...new Uint8Array(envelope?.buffers[0] ?? new ArrayBuffer(0), 0, 3)], [1, 2, 3])
})

test('a large array that has its memory to itself is handed over at once, and only once when it is sent twice', () => {
  const { outbox, envelopes } = outboxUnderTest()
  const large = new Uint8Array(100_000)
  outbox.addWithTensors([bytesTensor(large), bytesTensor(large)], response)
  assert.deepEqual(
    envelopes.map(({ buffers }) => buffers.map((buffer) => buffer === large.buffer)),
    [[true]],
  )
})

test('views on larger memory, shared memory and kept inputs are copied', () => {
  const kept = new Uint8Array(50_000)
  const views = [new Uint8Array(100_000).subarray(1), new Uint8Array(new SharedArrayBuffer(50_000)), kept]
  for (const view of views) {
    const { outbox, envelopes } = outboxUnderTest()
    outbox.keep([kept.buffer])
    outbox.addWithTensors([bytesTensor(view)], response)
    outbox.flush()
    assert.equal(envelopes[0]?.buffers.length, 1)
    assert.notEqual(envelopes[0].buffers[0], view.buffer)
  }
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OnnxTensorSpec } from '../onnx-session.ts'
import { BufferPool } from './buffer-pool.ts'
import { predictShape } from './plan-slots.ts'

const spec = (shape: number[] | null, ...symbols: string[]): OnnxTensorSpec => ({
  name: 'x',
  dataType: 'FP32',
  typeText: 'FP32',
  shape,
  symbols,
})
const given = (...shape: number[]) => ({ shape, bytes: new Uint8Array(0) })

test('an output’s shape is known when each open dimension has the name of an input’s', () => {
  const inputs = [spec([-1, 3, -1], 'batch', '', 'length'), spec([-1], 'batch')]
  assert.deepEqual(
    predictShape(spec([-1, -1, 7], 'length', 'batch', ''), inputs, [given(2, 3, 9), given(2)]),
    [9, 2, 7],
  )
  assert.deepEqual(predictShape(spec([], ''), inputs, [given(2, 3, 9), null]), [])
})

test('it is not known when a name is missing, unused, given differently or its input left out', () => {
  const inputs = [spec([-1], 'n'), spec([-1], 'n'), spec([-1], 'm')]
  assert.equal(predictShape(spec([-1], ''), inputs, [given(1), given(1), given(1)]), null)
  assert.equal(predictShape(spec([-1], 'other'), inputs, [given(1), given(1), given(1)]), null)
  assert.equal(predictShape(spec([-1], 'n'), inputs, [given(1), given(5), given(1)]), null)
  assert.equal(predictShape(spec([-1], 'm'), inputs, [given(1), given(1), null]), null)
  assert.equal(predictShape(spec(null), inputs, [given(1), given(1), given(1)]), null)
})

test('the pool gives back buffers of the same size and keeps within its limits', () => {
  const pool = new BufferPool()
  const first = pool.take(10_000)
  pool.giveBack(first)
  assert.equal(pool.take(10_000), first)
  for (let i = 0; i < 100; i++) pool.giveBack(new Uint8Array(1000))
  assert.equal(pool.idleBytes, 8000)
  for (let size = 1; size < 500; size++) pool.giveBack(new Uint8Array(size))
  assert.ok(pool.idleBytes < 8000 + 64 * 500)
  pool.clear()
  assert.equal(pool.idleBytes, 0)
})

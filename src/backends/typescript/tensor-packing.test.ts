import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Tensor } from '../../tensor/tensor.ts'
import { ask } from '../backend.contract.ts'
import { packRequests, unpackTensors } from './tensor-packing.ts'

test('a batch is packed into one buffer and comes out as it went in, aligned, whatever its sizes', () => {
  const bytes = fc.uint8Array({ maxLength: 40 })
  fc.assert(
    fc.property(fc.array(fc.array(bytes, { maxLength: 4 }), { minLength: 1, maxLength: 5 }), (batch) => {
      const requests = batch.map((inputs) => {
        const tensors = inputs.map((input, index) => new Tensor(`I${index}`, 'UINT8', [input.length], input))
        return ask(tensors).request
      })
      let key = 0
      const packed = packRequests(requests, () => ++key)
      assert.equal(packed.buffers.length, 1)
      for (const [index, message] of packed.requests.entries()) {
        assert.equal(message.key, index + 1)
        assert.ok(message.inputs.every(({ offset }) => offset % 8 === 0))
        const tensors = unpackTensors(message.inputs, packed.buffers)
        assert.deepEqual(
          tensors.map((tensor) => [...tensor.bytes]),
          batch[index]?.map((input) => [...input]),
        )
      }
    }),
  )
})

test('a request with nothing out of the ordinary carries no details, any other carries all of them', () => {
  const plain = packRequests([ask([]).request], () => 1)
  assert.equal(plain.requests[0]?.details, null)
  const cancelled = ask([]).request
  cancelled.cancel()
  const special = [ask([], { correlationId: 1n }), ask([], { isSequenceEnd: true }), ask([], { priority: 2n })]
  for (const request of [cancelled, ...special.map((asked) => asked.request)]) {
    assert.notEqual(packRequests([request], () => 1).requests[0]?.details, null)
  }
})

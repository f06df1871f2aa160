import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readStreamResponse } from './stream-response.ts'

const field = (number: number, bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from([number * 8 + 2, bytes.length]), bytes])
const parameter = (name: string, value: number): Buffer =>
  field(4, Buffer.concat([field(1, Buffer.from(name)), field(2, Buffer.from([8, value]))]))
const output = field(5, field(1, Buffer.from('OUT')))
const response = (...parts: Buffer[]): Buffer => field(2, Buffer.concat(parts))
const error = field(1, Buffer.from('half way'))

test('the last response says that it is, and one without outputs says nothing else', () => {
  const read = (...parts: Buffer[]): object => readStreamResponse(response(...parts))
  assert.deepEqual(read(output), { error: '', isFinal: false, isEmpty: false })
  assert.deepEqual(read(output, parameter('triton_final_response', 0)), { error: '', isFinal: false, isEmpty: false })
  assert.deepEqual(read(output, parameter('triton_final_response', 1)), { error: '', isFinal: true, isEmpty: false })
  assert.deepEqual(read(parameter('triton_final_response', 1)), { error: '', isFinal: true, isEmpty: true })
  assert.deepEqual(read(output, parameter('other', 1)), { error: '', isFinal: false, isEmpty: false })
})

test('an error is the end of its request unless it says that more will come', () => {
  const isFinal = (...parts: Buffer[]): boolean =>
    readStreamResponse(Buffer.concat([error, response(...parts)])).isFinal
  assert.equal(readStreamResponse(error).error, 'half way')
  assert.equal(isFinal(), true)
  assert.equal(isFinal(parameter('triton_final_response', 1)), true)
  assert.equal(isFinal(parameter('triton_final_response', 0)), false)
})

test('a message that is cut short is refused', () => {
  assert.throws(() => readStreamResponse(response(output).subarray(0, 5)), /cut short/)
})

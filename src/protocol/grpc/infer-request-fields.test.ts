import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readInputs, readOutputSelections } from './infer-request-fields.ts'
import { WireInferRequest, WireInput, type WireParameters } from './infer-request-reader.ts'

test('an output cannot be ranked and be in shared memory, in the words of Triton over gRPC', () => {
  const parameters: WireParameters = new Map([
    ['shared_memory_region', { kind: 'string_param', value: 'r' }],
    ['shared_memory_byte_size', { kind: 'int64_param', value: 10n }],
    ['classification', { kind: 'int64_param', value: 1n }],
  ])
  assert.throws(() => readOutputSelections([{ name: 'OUT', parameters }]), {
    code: 'INVALID_ARG',
    message: "output can't set both 'shared_memory_region' and 'classification'",
  })
})

for (const value of [0n, -2n]) {
  test(`${value} classes are refused over gRPC, in the words of Triton`, () => {
    const parameters: WireParameters = new Map([['classification', { kind: 'int64_param', value }]])
    assert.throws(() => readOutputSelections([{ name: 'OUT', parameters }]), {
      code: 'INVALID_ARG',
      message: "invalid value for 'classification' parameter, expected >= 0",
    })
  })
}

test('an input named twice is told before what is wrong with the bytes of either, as Triton adds all inputs first', () => {
  const request = new WireInferRequest()
  for (const dataType of ['FP32', 'nope']) {
    const input = new WireInput()
    Object.assign(input, { name: 'A', dataType, shape: [1], contents: [Buffer.from([0x1a, 0x01, 0x00])] })
    request.inputs.push(input)
  }
  const message = "[request id: <id_unknown>] input 'A' already exists in request"
  assert.throws(() => readInputs(request, 'm'), { code: 'INVALID_ARG', message })
  request.id = 'r7'
  assert.throws(() => readInputs(request, 'm'), { message: message.replace('<id_unknown>', 'r7') })
})

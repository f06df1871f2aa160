import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readOutputSelections } from './infer-request-fields.ts'
import type { WireParameters } from './infer-request-reader.ts'

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

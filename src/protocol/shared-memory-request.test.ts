import assert from 'node:assert/strict'
import test from 'node:test'

import type { ServerError } from '../base/server-error.ts'
import { readCudaRegistration, readSystemRegistration } from './shared-memory-request.ts'

const handle = Buffer.alloc(64).toString('base64')
const cuda = (fields: object): Buffer => Buffer.from(JSON.stringify(fields))

test('a system region has a key and a size; its offset is 0 unless told', () => {
  assert.deepEqual(readSystemRegistration(Buffer.from('{"key":"/k","byte_size":8}')), {
    key: '/k',
    offset: 0n,
    byteSize: 8n,
  })
  const whole = readSystemRegistration(Buffer.from('{"byte_size":18446744073709551615,"offset":4096,"key":"/k"}'))
  assert.deepEqual(whole, { key: '/k', offset: 4096n, byteSize: 2n ** 64n - 1n })
})

test('a CUDA region has a handle of 64 bytes, a device and a size', () => {
  const read = readCudaRegistration(cuda({ raw_handle: { b64: handle }, device_id: 1, byte_size: 8 }))
  assert.deepEqual([read.rawHandle.length, read.deviceId, read.byteSize], [64, 1n, 8n])
})

test('of the base64 of a handle only letters of its alphabet count, as in Triton', () => {
  const bytes = Buffer.from(Array.from({ length: 64 }, (_, i) => 255 - i))
  const text = bytes.toString('base64')
  const read = (b64: string): Uint8Array =>
    readCudaRegistration(cuda({ raw_handle: { b64 }, device_id: 0, byte_size: 8 })).rawHandle
  for (const b64 of [`!!!!${text}`, `${text.slice(0, 10)}%\n ${text.slice(10)}`, text.replaceAll('=', '')]) {
    assert.deepEqual([...read(b64)], [...bytes])
  }
  for (const b64 of [Buffer.alloc(64, 255).toString('base64url'), `${text}garbage`]) {
    assert.throws(() => read(b64), /must be a valid base64 encoded cudaIpcMemHandle_t/)
  }
})

// What the recorded server said to each of these.
for (const [body, expected] of [
  [cuda({}), "INVALID_ARG Shared memory register request has no 'raw_handle' field"],
  [cuda({ raw_handle: {} }), "INTERNAL attempt to access non-existing object member 'b64'"],
  [cuda({ raw_handle: 5 }), "INTERNAL attempt to access non-existing object member 'b64'"],
  [cuda({ raw_handle: { b64: 5 } }), 'INTERNAL attempt to access JSON non-string as string'],
  [cuda({ raw_handle: { b64: handle } }), "INTERNAL attempt to access non-existing object member 'byte_size'"],
  [
    cuda({ raw_handle: { b64: handle }, device_id: -1, byte_size: 8 }),
    'INTERNAL attempt to access JSON non-unsigned-integer as unsigned-integer',
  ],
  [
    cuda({ raw_handle: { b64: 'AAAA' }, device_id: 0, byte_size: 8 }),
    "INVALID_ARG 'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t",
  ],
] as const) {
  test(`a CUDA registration of ${body.toString().slice(0, 60)} is refused: ${expected}`, () => {
    assert.throws(
      () => readCudaRegistration(body),
      (reason: ServerError) => `${reason.code} ${reason.message}` === expected,
    )
  })
}

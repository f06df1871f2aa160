import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { lastOf } from '../../base/run-in-slices.ts'
import { torchAnswer, torchTensors } from './torch-request.ts'

const element = (value: string): Buffer => {
  const bytes = Buffer.from(value)
  const length = Buffer.alloc(4)
  length.writeUInt32LE(bytes.length)
  return Buffer.concat([length, bytes])
}

function answerOf(head: unknown): ReturnType<typeof torchAnswer> {
  const outputs = [
    new Tensor('prediction', 'BYTES', [1, 1], element('body')),
    new Tensor('response', 'BYTES', [1, 1], element(JSON.stringify(head))),
  ]
  return torchAnswer({ outputs } as unknown as InferenceResponse)
}

test('a handler cannot write into the head of the answer', () => {
  const headers = {
    'x-good': 'yes',
    'x-bad': 'a\r\nb: c',
    'b c': 'x',
    'Content-Length': '3',
    'Transfer-Encoding': 'chunked',
  }
  const { head, body } = answerOf({ status: 201, contentType: 'a\r\nb', headers })
  assert.deepEqual([head, body.toString()], [{ status: 201, contentType: '', headers: ['x-good', 'yes'] }, 'body'])
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`x-${index}`, '1']))
  assert.equal(answerOf({ status: 99, contentType: '', headers: many }).head.headers.length, 128)
  assert.equal(answerOf({ status: 99, contentType: '', headers: {} }).head.status, 500)
})

test('a head that is the same as the last one is the same object, and another one is read', () => {
  const [first, same, other] = [200, 200, 201].map((status) => answerOf({ status, contentType: '', headers: {} }).head)
  assert.equal(first, same)
  assert.deepEqual([same?.status, other?.status], [200, 201])
})

test('only files of a form have a type, without its parameters, and the query comes before the body', () => {
  const part = (head: string): string => `--b\r\nContent-Disposition: form-data; ${head}\r\n\r\n{}\r\n`
  const type = '\r\nContent-Type: application/json; charset=utf-8'
  const parts = [`name="field"${type}`, `name="file"; filename="f"${type}`, 'name="bare"; filename="g"']
  const body = Buffer.from(`${parts.map(part).join('')}--b--\r\n`)
  const request = {
    id: 'i',
    headers: '{}',
    contentType: 'multipart/form-data; boundary=b',
    body,
    query: [['q', '1']] as const,
  }
  const head = lastOf(torchTensors(request, false)).find(({ name }) => name === 'request')?.bytes ?? Buffer.alloc(0)
  const { fields } = JSON.parse(Buffer.from(head).subarray(4).toString()) as { fields: unknown }
  assert.deepEqual(fields, [
    ['q', '', 1],
    ['field', '', 2],
    ['file', 'application/json', 2],
    ['bare', 'application/octet-stream', 2],
  ])
})

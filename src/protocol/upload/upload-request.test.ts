import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lastOf } from '../../base/run-in-slices.ts'
import { uploadRequest, type UploadRequest } from './upload-request.ts'

function read(fields: Readonly<Record<string, string>>): UploadRequest {
  const parts = Object.entries(fields).map(
    ([name, value]) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  )
  const body = Buffer.from(`${parts.join('')}--b--\r\n`)
  return lastOf(uploadRequest(body, 'multipart/form-data; boundary=b', '/predict'))
}

test('the fields model and top_k of a form are no uploads, and are short', () => {
  const { model, topK, uploads } = read({ model: 'm'.repeat(1024), top_k: '7', data: 'x'.repeat(2000) })
  assert.deepEqual([model.length, topK, uploads.length], [1024, 7, 1])
  for (const name of ['model', 'top_k']) {
    const long = {
      code: 'INVALID_ARG',
      message: `the field '${name}' of the form has 1025 bytes, at most 1024 are read`,
    }
    assert.throws(() => read({ data: 'x', [name]: '1'.repeat(1025) }), long)
  }
})

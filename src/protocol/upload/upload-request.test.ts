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

const named = (...parts: readonly (readonly [parameters: string, value: string])[]): string[] => {
  const text = parts.map(([parameters, value]) => `--b\r\nContent-Disposition: form-data; ${parameters}\r\n\r\n${value}\r\n`) // prettier-ignore
  const { uploads } = lastOf(uploadRequest(Buffer.from(`${text.join('')}--b--`), 'multipart/form-data; boundary=b', '/predict')) // prettier-ignore
  return uploads.map(({ fileName }) => fileName)
}

test('a file field in which nothing was chosen is no upload, and an empty file is one', () => {
  assert.deepEqual(named(['name="a"; filename=""', ''], ['name="b"; filename="x"', '1']), ['x'])
  assert.deepEqual(named(['name="a"; filename="e"', ''], ['name="b"; filename=""', '1']), ['e', 'b'])
  assert.throws(() => named(['name="a"; filename=""', '']), /^ServerError: nothing was uploaded/)
})

test('a form within a form is refused', () => {
  const parameters = 'name="f"\r\nContent-Type: multipart/mixed; boundary=c'
  assert.throws(() => named([parameters, '--c']), /the field 'f' of the form is a form itself: send each file in a field of its own$/) // prettier-ignore
})

test('a form has files or texts: a field that nobody reads is refused', () => {
  assert.deepEqual(named(['name="text"', 'ahoj'], ['name="more"', 'čau'], ['name="top_k"', '3']), ['text', 'more'])
  assert.throws(
    () => named(['name="file"; filename="x"', '1'], ['name="topk"', '3']),
    /the form has the field 'topk' beside its files: only 'model' and 'top_k' may stand there$/,
  )
  assert.throws(
    () => lastOf(uploadRequest(Buffer.from('--b--'), 'multipart/mixed; boundary=b', '/predict')),
    /a form is multipart\/form-data, got 'multipart\/mixed; boundary=b'$/,
  )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readFormFields } from './form-fields.ts'

const type = 'multipart/form-data; boundary="b c"'
const part = (head: string, value: string): string => `--b c\r\n${head}\r\n\r\n${value}\r\n`
const read = (text: string): [string, string, string, string][] =>
  (readFormFields(Buffer.from(text, 'latin1'), type) ?? []).map(({ name, contentType, fileName, value }) => [
    name,
    contentType,
    fileName,
    value.toString('latin1'),
  ])

test('parts have names, types, file names and any bytes; a boundary may be quoted', () => {
  const text =
    part('Content-Disposition: form-data; name="a"', '') +
    part('content-type: image/png\r\ncontent-disposition: form-data; name=b; filename="x; y.png"', '\r\n--b\x00\r\n')
  assert.deepEqual(read(`preamble\r\n${text}--b c--\r\nepilogue`), [
    ['a', '', '', ''],
    ['b', 'image/png', 'x; y.png', '\r\n--b\x00\r\n'],
  ])
  assert.deepEqual(read('--b c--'), [])
})

test('what is no form is null, and a form that is cut short or has no names is refused', () => {
  assert.equal(readFormFields(Buffer.from('x'), 'application/json'), null)
  for (const text of [
    '',
    '--b c',
    '--b cx',
    part('x: y', 'z'),
    part('Content-Disposition: form-data; name="a"', '1'),
  ]) {
    assert.throws(() => read(text), { code: 'INVALID_ARG' })
  }
  assert.throws(() => read(`--b c\r\n${'x'.repeat(3000)}\r\n\r\n`), /longer than 2048 bytes/)
})

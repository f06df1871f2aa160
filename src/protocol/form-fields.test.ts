import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lastOf } from '../base/run-in-slices.ts'
import { formFields } from './form-fields.ts'

const type = 'multipart/form-data; boundary="b c"'
const part = (head: string, value: string): string => `--b c\r\n${head}\r\n\r\n${value}\r\n`
const read = (text: string): [string, string, string | null, string][] =>
  (lastOf(formFields(Buffer.from(text, 'latin1'), type)) ?? []).map(({ name, contentType, fileName, value }) => [
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
    ['a', '', null, ''],
    ['b', 'image/png', 'x; y.png', '\r\n--b\x00\r\n'],
  ])
  assert.deepEqual(read('--b c--'), [])
})

test('what is no form is null, and a form that is cut short or has no names is refused', () => {
  assert.equal(lastOf(formFields(Buffer.from('x'), 'application/json')), null)
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

test('names are read as clients write them', () => {
  const names = [
    ['; name=file; filename=my picture.png', 'my picture.png'],
    ['; name="file"; filename="a\\"b\\\\c.png"', 'a"b\\c.png'],
    ['; name="file"; filename="C:\\x.png"', 'C:\\x.png'],
    ['; Name="file" ; FileName = "x.png"', 'x.png'],
    ['; name="file"; filename="%22a%22%0A%41.png"', '"a"\n%41.png'],
    [`; name="file"; filename="?.png"; filename*=UTF-8''%C4%8D.png`, 'č.png'],
    [`; name="file"; filename*=utf-8'en'a%20b; filename=x`, 'a b'],
    [`; name="file"; filename*=latin1''%E8; filename=x`, 'x'],
    ['; name="file; filename=x"; filename=""', ''],
    [';\r\n name="file";\r\n\tfilename="a b.png"', 'a b.png'],
    ['; name="file"', null],
  ] as const
  for (const [parameters, fileName] of names) {
    assert.equal(
      read(`${part(`Content-Disposition: form-data${parameters}`, '1')}--b c--`)[0]?.[2],
      fileName,
      parameters,
    )
  }
})

test('blanks may stand behind a boundary, and lines that end with LF are told', () => {
  const text = part('Content-Disposition: form-data; name="a"', '1')
  assert.deepEqual(read(`${text.replace('\r\n', ' \t\r\n')}--b c--`), [['a', '', null, '1']])
  assert.throws(() => read(`${text}--b c--`.replaceAll('\r\n', '\n')), /its lines end with LF, expected CR LF$/)
})

test('a long body is searched a piece at a time, and a boundary over the end of a piece is found', () => {
  const short = 'multipart/form-data; boundary=b'
  const head = '--b\r\ncontent-disposition: form-data; name=a\r\n\r\n'
  const piece = 256 * 1024
  for (const at of [-4, -3, -1, 0, 1]) {
    const value = '\r'.repeat(2 * piece + at - head.length)
    const steps = formFields(Buffer.from(`${head}${value}\r\n--b--`, 'latin1'), short)
    let stepCount = 0
    let step = steps.next()
    for (; step.done !== true; step = steps.next()) stepCount++
    assert.deepEqual(
      [stepCount > 0, step.value?.map((field) => field.value.length)],
      [true, [value.length]],
      String(at),
    )
  }
  const endless = formFields(Buffer.alloc(64 * piece, '\r'), short)
  let stepCount = 0
  assert.throws(() => {
    while (endless.next().done !== true) stepCount++
  }, /has no part that begins with its boundary/)
  assert.equal(stepCount, 64)
})

test('a value of a urlencoded form may be any bytes', () => {
  const form = Buffer.from('a=%FF%00+%2b&b=\xfc', 'latin1')
  const fields = lastOf(formFields(form, 'application/x-www-form-urlencoded')) ?? []
  assert.deepEqual(
    fields.map(({ name, value }) => [name, value.toString('latin1')]),
    [
      ['a', '\xff\x00 +'],
      ['b', '\xfc'],
    ],
  )
  for (const text of ['a=%', 'a=%f', 'a=%fg']) {
    assert.throws(() => lastOf(formFields(Buffer.from(text), 'application/x-www-form-urlencoded')), {
      code: 'INVALID_ARG',
    })
  }
})

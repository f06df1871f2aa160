import assert from 'node:assert/strict'
import test from 'node:test'
import { readLoadRequest, readUnloadRequest } from './repository-request.ts'

test('dependents go along only when the body says so in the right place and type', () => {
  const read = (text: string): boolean => readUnloadRequest(Buffer.from(text))
  assert.equal(read('{"parameters":{"unload_dependents":true}}'), true)
  for (const text of [
    '',
    '{}',
    '[]',
    '{"parameters":{"unload_dependents":false}}',
    '{"parameters":{"unload_dependents":"x"}}',
    '{"parameters":7}',
    '{',
  ]) {
    assert.equal(read(text), false, text)
  }
})

test('files of a load request are base64 with white space anywhere, and text that is none is an empty file', () => {
  const fileOf = (text: string): Uint8Array | undefined =>
    readLoadRequest(Buffer.from(JSON.stringify({ parameters: { 'file:1/x': text } }))).files.get('1/x')
  assert.deepEqual(fileOf(' YWJj\nZA== \r\n\t'), Buffer.from('abcd'))
  assert.deepEqual(fileOf('YWJ'), Buffer.from('ab'))
  for (const text of ['YW=Jj', 'YWJj===', 'YWJj!', 'YQ= =']) assert.equal(fileOf(text)?.length, 0, text)
})

test('the time to read a file of a load request grows with its length and not with the square of it', () => {
  const body = JSON.stringify({ parameters: { 'file:1/x': `${' '.repeat(4_000_000)}!` } })
  // The square of it is hours.
  assert.equal(readLoadRequest(Buffer.from(body)).files.get('1/x')?.length, 0)
})

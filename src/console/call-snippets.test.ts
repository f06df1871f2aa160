import assert from 'node:assert/strict'
import { test } from 'node:test'
import { curlSnippet, grpcSnippet, pythonSnippet, typescriptSnippet, type SnippetCall } from './call-snippets.ts'

const call: SnippetCall = {
  origin: 'http://localhost:8000',
  model: 'größe in cm',
  version: '',
  inputs: [{ name: 'x', dataType: 'FP32', shape: [1, 1], values: [1] }],
  isDecoupled: false,
  hasKey: false,
}
const snippets = [curlSnippet, pythonSnippet, typescriptSnippet, grpcSnippet]

test('a snippet has a name that curl takes', () => {
  assert.match(curlSnippet(call), /models\/gr%C3%B6%C3%9Fe%20in%20cm\/infer'/)
})

test('where the server asks for a key, every snippet reads it from a variable', () => {
  const secret = /\$KEY|environ\["KEY"\]|process\.env\.KEY/
  for (const snippet of snippets) {
    assert.match(snippet({ ...call, hasKey: true }), secret)
    assert.doesNotMatch(snippet(call), secret)
  }
})

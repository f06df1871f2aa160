import assert from 'node:assert/strict'
import { test } from 'node:test'
import { askCommand } from './ask-command.ts'

test('small inputs are written out, with a value of their type, and quoted for the shell', () => {
  const command = askCommand('localhost:8000', "it's", [
    { name: "it's", datatype: 'BYTES', shape: [-1, 2] },
    { name: 'n', datatype: 'FP32', shape: [-1, 3] },
    { name: 'b', datatype: 'BOOL', shape: [1] },
  ])
  const inputs = [
    { name: String.raw`it'\''s`, datatype: 'BYTES', shape: [1, 2], data: ['text', 'text'] },
    { name: 'n', datatype: 'FP32', shape: [1, 3], data: [1, 1, 1] },
    { name: 'b', datatype: 'BOOL', shape: [1], data: [true] },
  ]
  const body = JSON.stringify({ inputs }).replace(String.raw`it'\\''s`, String.raw`it'\''s`)
  assert.equal(command, `curl localhost:8000/v2/models/it%27s/infer -d '${body}'`)
})

test('a model whose inputs are not known is asked what it takes', () => {
  assert.equal(askCommand('localhost:8000', 'm', []), 'curl localhost:8000/v2/models/m')
})

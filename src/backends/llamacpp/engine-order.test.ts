import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readLanguageRequest } from '../../llm/language-request.ts'
import { encodeBytesElements } from '../../tensor/bytes-elements.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { engineOrder } from './engine-order.ts'

const bytes = (name: string, value: string | Uint8Array): Tensor =>
  new Tensor(name, 'BYTES', [1], encodeBytesElements([value]))
const flag = (name: string, value: boolean): Tensor => new Tensor(name, 'BOOL', [1], new Uint8Array([Number(value)]))
const order = (inputs: Tensor[], parameters = new Map<string, unknown>()): ReturnType<typeof engineOrder> =>
  engineOrder(1, readLanguageRequest({ inputs, parameters }), { priority: 0n, waitedMs: 0 })

test('tasks become orders', () => {
  assert.equal(order([bytes('text_input', 'a')]).kind, 'generate')
  const rerank = order([bytes('text_input', '{"query":"q","documents":["a","b"]}'), bytes('task', 'rerank')])
  assert.deepEqual(rerank, { kind: 'pool', key: 1, texts: ['a', 'b'], query: 'q', priority: 0x7fffffff })
  const embed = (text: string): unknown => {
    const made = order([bytes('text_input', text), bytes('task', 'embed')])
    return made.kind === 'pool' ? made.texts : null
  }
  assert.deepEqual(embed('["a"]'), ['["a"]'])
  assert.deepEqual(embed('{"input": ["a", [1, 2]]}'), ['a', [1, 2]])
  const back = order([bytes('text_input', '[1, 2]'), bytes('task', 'detokenize')])
  assert.deepEqual(back, { kind: 'detokenize', key: 1, tokens: [1, 2] })
})

test('parameters of the request sample where there is no input for that, and other parameters are left alone', () => {
  const made = order([bytes('text_input', 'a')], new Map<string, unknown>([['max_tokens', 7n], ['colour', 'red']])) // prettier-ignore
  assert.equal(made.kind === 'generate' ? made.sampling.maxTokens : 0, 7)
})

test('what cannot be asked is refused', () => {
  const refused: [inputs: Tensor[], text: RegExp][] = [
    [[bytes('text_input', new Uint8Array([0xff, 0xfe]))], /'text_input' must be UTF-8/],
    [[bytes('text_input', 'a'), bytes('task', 'sing')], /'task' must be one of generate, embed/],
    [[bytes('text_input', 'a'), flag('stream', true), flag('exclude_input_in_output', false)], /a stream has no place/],
    [[bytes('text_input', '{}'), bytes('task', 'rerank')], /must be JSON like/],
    [[bytes('text_input', '{"input": [-1]}'), bytes('task', 'embed')], /must be a text, or JSON like/],
    [[bytes('text_input', '{"input": []}'), bytes('task', 'embed')], /must be a text, or JSON like/],
    [[bytes('text_input', '["a"]'), bytes('task', 'detokenize')], /list of token ids/],
    [[bytes('text_input', '[-1]'), bytes('task', 'detokenize')], /list of token ids/],
  ]
  for (const [inputs, text] of refused) assert.throws(() => order(inputs), { code: 'INVALID_ARG', message: text })
  const many = JSON.stringify({ query: 'q', documents: Array.from({ length: 1025 }, () => 'd') })
  assert.throws(() => order([bytes('text_input', many), bytes('task', 'rerank')]), /at most 1024 documents, got 1025/)
  const texts = JSON.stringify({ input: Array.from({ length: 2049 }, () => 'd') })
  assert.throws(() => order([bytes('text_input', texts), bytes('task', 'embed')]), /at most 2048 texts, got 2049/)
})

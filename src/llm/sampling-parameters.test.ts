import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseSamplingParameters } from './sampling-parameters.ts'

const parse = (value: object): ReturnType<typeof parseSamplingParameters> =>
  parseSamplingParameters(JSON.stringify(value))

test('values are read as numbers or as texts of numbers, and nulls are defaults', () => {
  const read = parse({ temperature: '0.1', top_k: -1, max_tokens: '100', seed: null, stop: 'END', ignore_eos: 'true' })
  assert.equal(read.temperature, 0.1)
  assert.equal(read.topK, 0)
  assert.equal(read.maxTokens, 100)
  assert.equal(read.seed, null)
  assert.deepEqual(read.stop, ['END'])
  assert.equal(read.ignoreEos, true)
  assert.deepEqual([...parse({ logit_bias: { 5: -100 } }).logitBias], [[5, -100]])
  assert.equal(parseSamplingParameters('').maxTokens, 16)
})

test('what cannot be asked is refused with the key and what it may be', () => {
  const refused: [source: string, text: RegExp][] = [
    ['{"temperature": NaN}', /must be a JSON object/],
    ['[]', /must be a JSON object/],
    ['{"temperature": "NaN"}', /'temperature' must be a number from 0 to 100, got 'NaN'/],
    ['{"temperature": -1}', /'temperature' must be a number from 0 to 100, got -1/],
    ['{"temperature": 1e999}', /'temperature'/],
    ['{"top_p": [1]}', /'top_p' must be a number from 0 to 1/],
    ['{"max_tokens": 1.5}', /'max_tokens' must be a whole number/],
    ['{"min_tokens": 20}', /'min_tokens' must be at most max_tokens \(16\)/],
    ['{"n": 2}', /'n' must be a whole number from 1 to 1/],
    ['{"stop": [1]}', /'stop' must be texts/],
    ['{"stop": [""]}', /'stop' must be texts of 1 to 1024 characters/],
    ['{"logprobs": 21}', /'logprobs' must be a whole number from 0 to 20/],
    ['{"logit_bias": {"x": 1}}', /'logit_bias' must be a whole number/],
    ['{"temprature": 1}', /'temprature' is not known; did you mean 'temperature'/],
    ['{"__proto__": 1}', /'__proto__' is not known/],
    ['{"grammar": "root ::= \\"a\\"", "json_schema": {}}', /exclude each other/],
  ]
  for (const [source, text] of refused)
    assert.throws(() => parseSamplingParameters(source), { code: 'INVALID_ARG', message: text })
})

test('a million stop texts, and lists and texts over their bounds, are refused', () => {
  const long = (count: number): number[] => Array.from({ length: count }, (_, i) => i)
  assert.throws(() => parse({ stop: long(1_000_000).map(String) }), /at most 262144 characters/)
  assert.throws(() => parse({ stop: long(65).map(String) }), /'stop' must be a list of at most 64 texts, got 65/)
  assert.throws(() => parse({ stop: ['x'.repeat(1025)] }), /1 to 1024 characters/)
  assert.throws(() => parse({ stop_token_ids: long(257) }), /at most 256 token ids/)
  assert.throws(() => parse({ logit_bias: Object.fromEntries(long(1025).map((id) => [id, 1])) }), /at most 1024 tokens/)
  assert.throws(() => parse({ grammar: 'x'.repeat(65_537) }), /at most 65536 characters/)
  assert.throws(() => parse({ json_schema: { title: 'x'.repeat(65_537) } }), /at most 65536 characters/)
})

import assert from 'node:assert/strict'
import test from 'node:test'
import { batchPaddingOf, lengthClass, paddedLength, paddingProblems } from './batch-padding.ts'
import { emptyModelConfig, type ModelConfig, type ModelInput, type ModelOutput } from './model-config.ts'

const tensor = (name: string, dims: number[], dataType = 'TYPE_INT32') =>
  ({ name, dims, dataType, reshape: null }) as unknown as ModelInput & ModelOutput

function configOf(parameters: Record<string, string>, part: Partial<ModelConfig> = {}): ModelConfig {
  const config = {
    ...emptyModelConfig(),
    name: 'm',
    maxBatchSize: 4,
    input: [
      tensor('ids', [-1]),
      tensor('mask', [-1], 'TYPE_INT64'),
      tensor('text', [-1], 'TYPE_STRING'),
      tensor('wide', [-1, -1]),
    ],
    output: [tensor('logits', [-1, 8], 'TYPE_FP32'), tensor('score', [1], 'TYPE_FP32')],
    dynamicBatching: {} as ModelConfig['dynamicBatching'],
    ...part,
  }
  for (const [key, stringValue] of Object.entries(parameters)) config.parameters.set(key, { stringValue })
  return config
}

const problemsOf = (parameters: Record<string, string>, part?: Partial<ModelConfig>): string[] =>
  [...paddingProblems(configOf(parameters, part))].map(({ message }) => message)

test('without parameters nothing is padded', () => {
  assert.equal(batchPaddingOf(configOf({})), null)
  assert.deepEqual(problemsOf({}), [])
})

test('value and buckets are per input, or common; outputs with one open dimension are cut back', () => {
  const parameters = {
    pad_inputs: 'ids, mask',
    pad_value: '1',
    'pad_value.mask': '-1',
    pad_buckets: '16, 32',
    'pad_buckets.mask': '8',
  }
  assert.deepEqual(problemsOf(parameters), [])
  const padding = batchPaddingOf(configOf(parameters))
  assert.deepEqual(padding?.inputs, [
    { name: 'ids', dataType: 'INT32', axis: 1, fill: Uint8Array.of(1, 0, 0, 0), buckets: [16, 32] },
    { name: 'mask', dataType: 'INT64', axis: 1, fill: new Uint8Array(8).fill(255), buckets: [8] },
  ])
  assert.deepEqual(padding.outputs, [{ name: 'logits', axis: 1, input: 'ids' }])
})

test('pad_outputs says which outputs are cut back, and as which input; none when it is empty', () => {
  const cuts = (text: string) => batchPaddingOf(configOf({ pad_inputs: 'ids,mask', pad_outputs: text }))?.outputs
  assert.deepEqual(cuts('logits=mask'), [{ name: 'logits', input: 'mask', axis: 1 }])
  assert.deepEqual(cuts(''), [])
})

test('a length goes to the next edge, beyond the last to itself, and without edges to the longest', () => {
  assert.equal(paddedLength([4, 8], 4, 0), 4)
  assert.equal(paddedLength([4, 8], 5, 0), 8)
  assert.equal(paddedLength([4, 8], 9, 0), 9)
  assert.equal(paddedLength([], 3, 7), 7)
})

test('without edges nothing is filled up to more than twice its length, short ones aside', () => {
  for (let length = 17; length < 5000; length += 7) {
    const longest = lengthClass([], length)
    assert.ok(longest >= length && longest < 2 * length)
    assert.equal(lengthClass([], longest), longest)
  }
  assert.equal(lengthClass([], 0), lengthClass([], 16))
})

test('what cannot be padded is said at load, with what is wrong and what would be right', () => {
  const says = (parameters: Record<string, string>, text: RegExp, part?: Partial<ModelConfig>): void =>
    assert.match(problemsOf(parameters, part).join('\n'), text)
  says({ pad_value: '1' }, /'pad_value' of model 'm' does nothing without 'pad_inputs'/)
  says({ pad_inputs: 'idz' }, /names 'idz', which is no input of the model \(ids, mask, text, wide\)/)
  says({ pad_inputs: 'text' }, /names 'text' of TYPE_STRING: only numbers can be filled up/)
  says({ pad_inputs: 'wide' }, /'wide', whose dims \[-1,-1\] must have exactly one -1/)
  says(
    { pad_inputs: 'ids', pad_value: '1.5' },
    /'pad_value' of model 'm' must be a number that TYPE_INT32 holds, got '1.5'/,
  )
  says({ pad_inputs: 'ids', pad_buckets: '32, 16' }, /ascending lengths such as '32, 64, 128', got '32, 16'/)
  says(
    { pad_inputs: 'ids', pad_buckets: '999999999' },
    /makes a full batch of 'ids' 15259 MiB long, more than 1024 MiB/,
  )
  says({ pad_inputs: 'ids', 'pad_buckets.mask': '3' }, /is for input 'mask', which 'pad_inputs' does not name \(ids\)/)
  says({ pad_inputs: 'ids', pad_outputs: 'score' }, /'score', whose dims \[1\] must have exactly one -1/)
  says({ pad_inputs: 'ids', pad_outputs: 'logits=mask' }, /cuts 'logits' as 'mask', which 'pad_inputs' does not name/)
  says({ pad_inputs: 'ids' }, /needs 'max_batch_size' above 0 and 'dynamic_batching \{ \}'/, { dynamicBatching: null })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ModelConfig } from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import { configDataType, type DataType } from '../../tensor/data-type.ts'
import { numbersOf, stringsOf } from '../../tensor/typed-values.ts'
import { takesText, textModelOf, type TextJob } from './text-model.ts'

type Given = readonly [name: string, dataType: DataType, dims: readonly number[], need?: 'optional']

function modelWith(inputs: readonly Given[], maxBatchSize = 0): ModelSignature {
  const ports = (list: readonly Given[]): object[] =>
    list.map(([name, dataType, dims, need]) => ({
      name,
      dataType: configDataType(dataType),
      dims,
      optional: need === 'optional',
    }))
  const output = ports([['text_output', 'BYTES', [-1]]])
  const config = { name: 'm', maxBatchSize, input: ports(inputs), output, parameters: new Map() }
  return new ModelSignature(config as unknown as ModelConfig)
}

const plainJob: TextJob = {
  task: 'generate',
  text: 'hi',
  isStream: false,
  sampling: {},
  maxTokens: null,
  usualMaxTokens: null,
  logprobs: null,
}

/** What the model gets, by the names of its inputs. */
function given(signature: ModelSignature, job: Partial<TextJob>): Record<string, unknown> {
  const tensors = textModelOf(signature).inputs({ ...plainJob, ...job })
  const value = (tensor: (typeof tensors)[number]): unknown =>
    tensor.dataType === 'BYTES' ? stringsOf(tensor) : Array.from(numbersOf(tensor) as Iterable<unknown>, Number)
  return Object.fromEntries(tensors.map((tensor) => [tensor.name, value(tensor)]))
}

test('a model may need the inputs that the server fills by itself', () => {
  const signature = modelWith([
    ['text_input', 'BYTES', [1, 1]],
    ['stream', 'BOOL', [1, 1]],
    ['sampling_parameters', 'BYTES', [1, 1]],
    ['exclude_input_in_output', 'BOOL', [1, 1]],
    ['return_num_input_tokens', 'BOOL', [1, 1]],
    ['return_logprobs', 'BOOL', [1, 1]],
  ])
  assert.equal(takesText(signature), true)
  assert.deepEqual(given(signature, { isStream: true, sampling: { temperature: 0 } }), {
    text_input: ['hi'],
    stream: [1],
    sampling_parameters: ['{"temperature":0}'],
    exclude_input_in_output: [1],
    return_num_input_tokens: [1],
    return_logprobs: [0],
  })
})

test('a model that needs an input which nobody fills takes no text', () => {
  const signature = modelWith([
    ['text_input', 'BYTES', [1]],
    ['image', 'FP32', [3]],
  ])
  assert.equal(takesText(signature), false)
})

const settings = {
  min_tokens: 2,
  temperature: 0.5,
  top_p: 0.25,
  top_k: 3,
  frequency_penalty: 1,
  presence_penalty: -1,
  seed: 7,
  stop: ['a', 'b'],
}

test('settings go to the inputs of TensorRT-LLM of each release', () => {
  const single = (min: string, seed: string): Given[] => [
    ['text_input', 'BYTES', [1]],
    ['max_tokens', 'INT32', [1]],
    ['stop_words', 'BYTES', [-1], 'optional'],
    ['top_k', 'INT32', [1], 'optional'],
    ['top_p', 'FP32', [1], 'optional'],
    ['temperature', 'FP32', [1], 'optional'],
    [min, 'INT32', [1], 'optional'],
    ['presence_penalty', 'FP32', [1], 'optional'],
    ['frequency_penalty', 'FP32', [1], 'optional'],
    [seed, 'UINT64', [1], 'optional'],
    ['stream', 'BOOL', [1], 'optional'],
  ]
  for (const [min, seed] of [
    ['min_tokens', 'seed'],
    ['min_length', 'random_seed'],
  ] as const) {
    // prettier-ignore
    assert.deepEqual(given(modelWith(single(min, seed), 8), { sampling: settings, maxTokens: 9 }), {
      text_input: ['hi'],
      stream: [0],
      max_tokens: [9],
      [min]: [2],
      temperature: [0.5],
      top_p: [0.25],
      top_k: [3],
      frequency_penalty: [1],
      presence_penalty: [-1],
      [seed]: [7],
      stop_words: ['a', 'b'],
    })
  }
})

test("settings go to the inputs of TensorRT-LLM's LLM API", () => {
  const signature = modelWith([
    ['text_input', 'BYTES', [-1]],
    ['streaming', 'BOOL', [1], 'optional'],
    ['sampling_param_max_tokens', 'INT32', [1], 'optional'],
    ['sampling_param_temperature', 'FP32', [1], 'optional'],
    ['sampling_param_seed', 'UINT64', [1], 'optional'],
    ['sampling_param_stop', 'BYTES', [-1], 'optional'],
    ['sampling_param_exclude_input_from_output', 'BOOL', [1], 'optional'],
  ])
  const sampling = { temperature: 0.5, seed: 7, stop: ['a', 'b'] }
  assert.deepEqual(given(signature, { sampling, isStream: true, usualMaxTokens: 16 }), {
    text_input: ['hi'],
    streaming: [1],
    sampling_param_exclude_input_from_output: [1],
    sampling_param_max_tokens: [16],
    sampling_param_temperature: [0.5],
    sampling_param_seed: [7],
    sampling_param_stop: ['a', 'b'],
  })
})

test('a schema goes to the inputs for a guide, where the model has them', () => {
  const signature = modelWith([
    ['text_input', 'BYTES', [1]],
    ['guided_decoding_guide_type', 'BYTES', [1], 'optional'],
    ['guided_decoding_guide', 'BYTES', [1], 'optional'],
  ])
  assert.deepEqual(given(signature, { sampling: { json_schema: { type: 'object' } } }), {
    text_input: ['hi'],
    guided_decoding_guide_type: ['json_schema'],
    guided_decoding_guide: ['{"type":"object"}'],
  })
  const grammar = (): unknown => given(signature, { sampling: { grammar: 'root ::= "a"' } })
  assert.throws(grammar, /model 'm' cannot do 'grammar': it takes 'json_schema'/)
})

test('a chat that says no number of tokens is asked with the usual one of completions, where the model needs a number', () => {
  const inputs = (need?: 'optional'): Given[] => [
    ['text_input', 'BYTES', [1]],
    ['max_tokens', 'INT32', [1], ...(need === undefined ? [] : [need])] as unknown as Given,
  ]
  assert.deepEqual(given(modelWith(inputs()), {}), { text_input: ['hi'], max_tokens: [16] })
  assert.deepEqual(given(modelWith(inputs('optional')), {}), { text_input: ['hi'] })
})

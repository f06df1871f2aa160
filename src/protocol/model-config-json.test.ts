import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { arbitraryModelConfig } from '../../test/fixtures/model-config/arbitrary-model-config.ts'
import { emptyModelConfig, type ModelConfig } from '../config/model-config.ts'
import {
  encodeModelConfigJson,
  modelConfigJsonLimitBytes,
  parseModelConfigJson,
  shortestFloat,
} from './model-config-json.ts'

const config = (part: Partial<ModelConfig>): ModelConfig => ({ ...emptyModelConfig(), ...part })
const printed = (part: Partial<ModelConfig>): Record<string, unknown> =>
  JSON.parse(encodeModelConfigJson(config(part))) as Record<string, unknown>

test('what was encoded parses to the same configuration, whatever it holds', () => {
  fc.assert(
    fc.property(arbitraryModelConfig, (any) => {
      assert.deepEqual(parseModelConfigJson(encodeModelConfigJson(any)), structuredClone(any))
    }),
    { numRuns: 60 },
  )
})

test('scalars, lists and maps are always printed, absent messages and unset choices never', () => {
  assert.deepEqual(Object.keys(printed({})), [
    'name',
    'platform',
    'backend',
    'runtime',
    'max_batch_size',
    'input',
    'output',
    'batch_input',
    'batch_output',
    'instance_group',
    'default_model_filename',
    'cc_model_filenames',
    'metric_tags',
    'parameters',
    'model_warmup',
  ])
})

test('64-bit integers are numbers, whole and exact, but for the three fields Triton forgets', () => {
  const text = encodeModelConfigJson(
    parseModelConfigJson(`{
      "input": [{"dims": ["3", 4]}],
      "dynamic_batching": {"max_queue_delay_microseconds": "18446744073709551615"},
      "instance_group": [{"secondary_devices": [{"device_id": 2}]}],
      "optimization": {"cuda": {"graph_spec": [{"input": {"x": {"dim": [5]}}}]}},
      "version_policy": {"specific": {"versions": ["7"]}}
    }`),
  )
  for (const part of [
    '"dims":[3,4]',
    '"max_queue_delay_microseconds":18446744073709551615',
    '"device_id":"2"',
    '"dim":["5"]',
    '"versions":[7]',
  ]) {
    assert.ok(text.includes(part), part)
  }
})

test('a 32-bit float is printed with the fewest digits that mean it', () => {
  assert.equal(shortestFloat(Math.fround(0.1)), 0.1)
  assert.equal(shortestFloat(Math.fround(16777217)), 16777216)
  fc.assert(
    fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
      assert.equal(Math.fround(shortestFloat(value)), value)
    }),
  )
})

describe('an override follows protobuf’s JSON mapping', () => {
  test('names in snake_case or camelCase, enums by name in any case or by number, null for not given', () => {
    const parsed = parseModelConfigJson(
      '{"maxBatchSize": 4, "default_model_filename": null, "input": [{"dataType": "type_fp32"}, {"data_type": 9}]}',
    )
    assert.equal(parsed.maxBatchSize, 4)
    assert.equal(parsed.defaultModelFilename, '')
    assert.deepEqual(
      parsed.input.map((input) => input.dataType),
      ['TYPE_FP32', 'TYPE_INT64'],
    )
  })

  test('a value alone is a list of one where a list is due', () => {
    const parsed = parseModelConfigJson(
      '{"instance_group": {"kind": "KIND_CPU", "count": 5}, "input": [{"dims": 16}], "dynamic_batching": {"preferred_batch_size": 4}}',
    )
    assert.deepEqual(
      parsed.instanceGroup.map(({ count }) => count),
      [5],
    )
    assert.deepEqual(parsed.input[0]?.dims, [16])
    assert.deepEqual(parsed.dynamicBatching?.preferredBatchSize, [4])
  })

  test('an empty object is an empty configuration', () => {
    assert.deepEqual(parseModelConfigJson('{}'), emptyModelConfig())
  })

  for (const [text, what] of [
    ['', /^Invalid config override: /],
    ['{', /^Invalid config override: /],
    ['[]', "Invalid config override: 'config': expected an object, got []"],
    ['{"nope": 1}', "Invalid config override: 'config': no such field: 'nope'"],
    [
      '{"max_batch_size": 1.5}',
      "Invalid config override: 'config.max_batch_size': expected a whole number from -2147483648 to 2147483647, got 1.5",
    ],
    ['{"max_batch_size": 1, "maxBatchSize": 2}', /is given twice/],
    ['{"name": 5}', "Invalid config override: 'config.name': expected a string, got 5"],
    ['{"input": "x"}', 'Invalid config override: \'config.input\': expected an object, got "x"'],
    ['{"input": [{"dims": [true]}]}', /'config\.input\[0\]\.dims\[0\]': expected a whole number/],
    ['{"input": [{"data_type": "TYPE_NOPE"}]}', /expected one of TYPE_INVALID, TYPE_BOOL, .*, got "TYPE_NOPE"/],
    ['{"response_cache": {"enable": "true"}}', /expected true or false, got "true"/],
    ['{"dynamic_batching": {}, "sequence_batching": {}}', /exclude each other/],
    ['{"dynamic_batching": {"priority_queue_policy": {"-1": {}}}}', /expected a whole number from 0/],
    ['{"parameters": []}', /'config\.parameters': expected an object/],
  ] as const) {
    test(`refused: ${text}`, () => {
      assert.throws(() => parseModelConfigJson(text), { code: 'INVALID_ARG', message: what })
    })
  }

  test('a text longer than any configuration is refused before it is parsed', () => {
    assert.throws(() => parseModelConfigJson(' '.repeat(modelConfigJsonLimitBytes + 1)), {
      message: /at most 262144 are read/,
    })
  })

  test('a configuration of more lists and objects than any has is refused before it is parsed', () => {
    const groups = (count: number): string => `{"instance_group":[${Array<string>(count).fill('{}').join()}]}`
    assert.equal(parseModelConfigJson(groups(8190)).instanceGroup.length, 8190)
    assert.throws(() => parseModelConfigJson(groups(8191)), {
      code: 'INVALID_ARG',
      message: 'Invalid config override: it has more than 8192 lists and objects, which is the most',
    })
  })

  test('names that JavaScript knows otherwise are just names', () => {
    const parsed = parseModelConfigJson('{"metric_tags": {"__proto__": "x", "constructor": "y"}}')
    assert.deepEqual(
      [...parsed.metricTags],
      [
        ['__proto__', 'x'],
        ['constructor', 'y'],
      ],
    )
    assert.throws(() => parseModelConfigJson('{"__proto__": {}}'), { message: /no such field/ })
  })
})

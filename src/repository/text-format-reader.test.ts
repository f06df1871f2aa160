import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { arbitraryModelConfig } from '../../test/fixtures/model-config/arbitrary-model-config.ts'
import { printModelConfigText } from '../../test/fixtures/model-config/print-model-config-text.ts'
import { ServerError } from '../base/server-error.ts'
import { TextFormatError } from './text-format-error.ts'
import { inspectModelConfigText, parseModelConfigText } from './text-format-reader.ts'

const parse = (text: string): ReturnType<typeof parseModelConfigText>['config'] => parseModelConfigText(text).config

test('every configuration that the schema allows can be written as text and read back', () => {
  fc.assert(
    fc.property(arbitraryModelConfig, (config) => {
      // A record of fast-check has no prototype; the clone has one, like what the reader makes.
      assert.deepEqual(parse(printModelConfigText(config)), structuredClone(config))
    }),
    { numRuns: 60 },
  )
})

describe('forms that mean the same', () => {
  test('a message is written with braces or angle brackets, with or without a colon', () => {
    const expected = parse('dynamic_batching { preserve_ordering: true }')
    assert.deepEqual(parse('dynamic_batching: { preserve_ordering: true }'), expected)
    assert.deepEqual(parse('dynamic_batching < preserve_ordering: true >'), expected)
    assert.deepEqual(parse('dynamic_batching: <preserve_ordering:true>;'), expected)
  })

  test('a repeated field is written once per value, as a list, or both', () => {
    assert.deepEqual(parse('input { dims: 1 dims: 2 dims: [ 3, 4 ] dims: [] }').input[0]?.dims, [1, 2, 3, 4])
    const [a, b] = parse('input [ { name: "a" }, < name: "b" > ]').input
    assert.deepEqual([a?.name, b?.name], ['a', 'b'])
    assert.equal(parse('input: [ { name: "a" } ] input { name: "b" }').input.length, 2)
  })

  test('fields may be parted by commas or semicolons, and comments go to the end of the line', () => {
    const config = parse('# head\nname: "m", # why\nmax_batch_size: 4;\nplatform: "p" # end')
    assert.deepEqual([config.name, config.maxBatchSize, config.platform], ['m', 4, 'p'])
  })

  test('true is written true, True, t or 1, and false alike', () => {
    for (const text of ['true', 'True', 't', '1', '0x1']) {
      assert.equal(parse(`response_cache { enable: ${text} }`).responseCache?.enable, true, text)
    }
    for (const text of ['false', 'False', 'f', '0', '00']) {
      assert.equal(parse(`response_cache { enable: ${text} }`).responseCache?.enable, false, text)
    }
  })

  test('an enum is given by name or by number', () => {
    assert.equal(parse('input { data_type: 11 }').input[0]?.dataType, 'TYPE_FP32')
    assert.equal(parse('input { data_type: TYPE_FP32 }').input[0]?.dataType, 'TYPE_FP32')
  })

  test('a byte order mark at the start is ignored', () => {
    assert.equal(parse('\uFEFFname: "m"').name, 'm')
  })
})

describe('numbers', () => {
  test('integers are decimal, hexadecimal or octal', () => {
    assert.deepEqual(parse('input { dims: [ 10, 0x1F, 017, -0x10, - 3 ] }').input[0]?.dims, [10, 31, 15, -16, -3])
  })

  test('floating-point numbers take exponents, a suffix, inf and nan, and are kept in their 32 bits', () => {
    const text = 'fp32_false_true: [ 1, 1.5f, .5, 2., 1e3, -1.5E-1F, inf, -Infinity, nan, 0.1 ]'
    const config = parse(`sequence_batching { control_input { control { ${text} } } }`)
    const expected = [1, 1.5, 0.5, 2, 1000, -0.15, Infinity, -Infinity, NaN, 0.1].map(Math.fround)
    assert.deepEqual(config.sequenceBatching?.controlInput[0]?.control[0]?.fp32FalseTrue, expected)
  })

  test('uint64 is a bigint and keeps all its digits', () => {
    const config = parse('dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }')
    assert.equal(config.dynamicBatching?.maxQueueDelayMicroseconds, 18446744073709551615n)
  })

  for (const [text, what] of [
    ['max_batch_size: 2147483648', /^1:17: 2147483648 is out of range for 'max_batch_size' \(int32: /],
    ['max_batch_size: -2147483649', /^1:17: -2147483649 is out of range/],
    ['version_policy { latest { num_versions: -0 } }', /^1:41: -0 is out of range/],
    ['version_policy { latest { num_versions: -1 } }', /^1:41: -1 is out of range for 'num_versions' \(uint32/],
    ['input { dims: 9007199254740993 }', /at most 2\^53 - 1 is supported/],
    ['max_batch_size: 1.5', /^1:17: expected a whole number for 'max_batch_size', found '1\.5'/],
    ['max_batch_size: 08', /expected a whole number/],
    ['max_batch_size: 4x', /^1:17: malformed number '4x'/],
    ['sequence_batching { direct { minimum_slot_utilization: 0x1 } }', /expected a number/],
  ] as const) {
    test(`refused: ${text}`, () => {
      assert.throws(() => parse(text), { message: what })
    })
  }
})

describe('strings', () => {
  const nameOf = (quoted: string): string => parse(`name: ${quoted}`).name

  test('single and double quotes, and adjacent strings are one', () => {
    assert.equal(nameOf(`'it''s'`), 'its')
    assert.equal(nameOf(`"a" 'b'\n  # between\n "c"`), 'abc')
    assert.equal(nameOf(`'say "hi"'`), 'say "hi"')
  })

  test('every escape of C, octal and hexadecimal bytes, and Unicode', () => {
    assert.equal(nameOf(String.raw`"\a\b\f\n\r\t\v\\\'\"\?"`), '\u0007\b\f\n\r\t\v\\\'"?')
    assert.equal(nameOf(String.raw`"\101\x42\303\251"`), 'ABé')
    assert.equal(nameOf(String.raw`"\u00e9\U0001F600\ud83d\ude00"`), 'é😀😀')
    assert.equal(nameOf(String.raw`"\303" "\251"`), 'é', 'a character may be cut by the end of a piece')
  })

  for (const [text, what] of [
    ['name: "abc', /^1:7: this string has no closing quote on its line/],
    ['name: "a\nb"', /no closing quote/],
    [String.raw`name: "a\q"`, /^1:9: unknown escape '\\q'/],
    [String.raw`name: "\377"`, /not valid UTF-8/],
    [String.raw`name: "\ud800x"`, /half of a character/],
    [String.raw`name: "\U00110000"`, /no Unicode character/],
    [String.raw`name: "\777"`, /more than one byte/],
  ] as const) {
    test(`refused: ${text}`, () => {
      assert.throws(() => parse(text), { message: what })
    })
  }
})

describe('maps', () => {
  test('entries are messages with key and value; the later of two equal keys wins', () => {
    const config = parse(`
      parameters { key: "a" value: { string_value: "1" } }
      parameters [ { key: "b" value { string_value: "2" } }, { value { string_value: "3" } key: "a" } ]
      metric_tags { key: "team", value: "search" }
      dynamic_batching { priority_queue_policy { key: 2 value { max_queue_size: 3 } } }`)
    assert.deepEqual(
      [...config.parameters],
      [
        ['a', { stringValue: '3' }],
        ['b', { stringValue: '2' }],
      ],
    )
    assert.deepEqual([...config.metricTags], [['team', 'search']])
    assert.deepEqual([...(config.dynamicBatching?.priorityQueuePolicy.keys() ?? [])], [2n])
  })

  test('a missing key or value has its default', () => {
    assert.deepEqual([...parse('metric_tags { } parameters { key: "x" }').metricTags], [['', '']])
    assert.deepEqual([...parse('parameters { key: "x" }').parameters], [['x', { stringValue: '' }]])
  })

  test('a key or value given twice is refused', () => {
    assert.throws(() => parse('metric_tags { key: "a" key: "b" }'), { message: "1:24: 'key' is given more than once" })
  })

  test('anything but key and value is refused', () => {
    assert.throws(() => parse('parameters { name: "x" }'), /1:14: unknown field 'name' in an entry of 'parameters'/)
  })
})

describe('mistakes are told with line, column, what was expected and what was found', () => {
  for (const [text, what, hint] of [
    ['max_bach_size: 4', "1:1: unknown field 'max_bach_size' in ModelConfig", "did you mean 'max_batch_size'?"],
    [
      'dynamic_batching {\n  max_batch_size: 4\n}',
      "2:3: unknown field 'max_batch_size' in ModelDynamicBatching",
      "'max_batch_size' is a field of the model itself: move it out to the top level of the file",
    ],
    [
      'preferred_batch_size: [ 4 ]',
      "1:1: unknown field 'preferred_batch_size' in ModelConfig",
      "'preferred_batch_size' belongs inside 'dynamic_batching'",
    ],
    ['maxBatchSize: 4', "1:1: unknown field 'maxBatchSize' in ModelConfig", "write it 'max_batch_size'"],
    [
      'backend: onnxruntime',
      "1:10: expected a string in quotes for 'backend', found 'onnxruntime'",
      'write backend: "onnxruntime"',
    ],
    [
      'max_batch_size: "4"',
      `1:17: expected a whole number for 'max_batch_size', found the string "4"`,
      'write the number without quotes',
    ],
    ['max_batch_size 4', "1:16: expected ':' after 'max_batch_size', found '4'", ''],
    ['max_batch_size = 4', "1:16: unexpected character '='", "write 'field: value'"],
    ['name: “m”', "1:7: unexpected character '“'", 'use straight quotes: " or \''],
    ['input { dims: [ 1, 2, ] }', "1:21: expected another value after ','", 'remove the last comma of the list'],
    ['input { dims: [ 1 2 ] }', "1:19: expected ',' or ']', found '2'", ''],
    ['}', "1:1: expected a field name, found '}'", 'nothing is open here: there is one bracket too many'],
    ['input {\n name: "x"\n', "3:1: expected '}', found the end of the file", "the '{' of line 1 is never closed"],
    [
      'dynamic_batching [ { } ]',
      "1:18: expected '{' to begin 'dynamic_batching', found '['",
      "'dynamic_batching' is one message, not a list: write dynamic_batching { … }",
    ],
    [
      'input { data_type: "TYPE_FP32" }',
      `1:20: expected one of TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, … for 'data_type', found the string "TYPE_FP32"`,
      'write TYPE_FP32 without quotes',
    ],
    [
      'input { data_type: float32 }',
      "1:20: expected one of TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, … for 'data_type', found 'float32'",
      'did you mean TYPE_FP32?',
    ],
    [
      'instance_group { kind: KIND_CPUS }',
      "1:24: expected one of KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL for 'kind', found 'KIND_CPUS'",
      'did you mean KIND_CPU?',
    ],
    ['max_batch_size: 1\nmax_batch_size: 2', "2:1: 'max_batch_size' is given more than once", ''],
    ['dynamic_batching { } dynamic_batching { }', "1:22: 'dynamic_batching' is given more than once", ''],
    ['version_policy { all { } latest { } }', "1:26: 'latest' and 'all' exclude each other: give one of them", ''],
  ] as const) {
    test(text, () => {
      assert.throws(
        () => parse(text),
        (error) => {
          assert.ok(error instanceof TextFormatError && error instanceof ServerError)
          assert.equal(error.code, 'INVALID_ARG')
          assert.equal(error.message, what)
          assert.equal(error.hint, hint)
          return true
        },
      )
    })
  }

  test('setting a field again that still has its default is no mistake, as in Triton', () => {
    assert.equal(parse('max_batch_size: 0 max_batch_size: 2').maxBatchSize, 2)
  })

  test('reading goes on after mistakes that leave no doubt where the next field begins', () => {
    const { config, errors } = inspectModelConfigText(`
nmae: "x"
wrong { deep { deeper: [ 1, { } ] } }
max_batch_size: many
input { name: "a" data_type: TYPE_NOPE dims: [ 1, x, 3 ] }
other: -1.5 another: "a" "b"
platform: "p"`)
    assert.deepEqual(
      errors.map((error) => error.message.split(':', 1)[0]),
      ['2', '3', '4', '5', '5', '6', '6'],
    )
    assert.deepEqual([config.platform, config.input[0]?.dims], ['p', [1, 3]])
  })

  test('nesting has a limit even in what is skipped', () => {
    assert.throws(
      () => parse(`x ${'{ a '.repeat(100)}${'}'.repeat(100)}`),
      /nested deeper than 64 levels|unknown field/,
    )
    const { errors } = inspectModelConfigText(`x ${'{ a '.repeat(100)}${'}'.repeat(100)}`)
    assert.match(errors.at(-1)?.message ?? '', /nested deeper than 64 levels/)
  })
})

test('positions tell where every field stands', () => {
  const { positions } = parseModelConfigText(`name: "m"
input [
  { name: "a" dims: [ 3, 4 ] }
]
parameters { key: "k.k" value { string_value: "v" } }
`)
  assert.deepEqual(positions.get('name'), { line: 1, column: 1 })
  assert.deepEqual(positions.get('input[0]'), { line: 3, column: 3 })
  assert.deepEqual(positions.get('input[0].dims'), { line: 3, column: 15 })
  assert.deepEqual(positions.get('input[0].dims[1]'), { line: 3, column: 26 })
  assert.deepEqual(positions.get('parameters["k.k"]'), { line: 5, column: 1 })
  assert.deepEqual(positions.nearest('parameters["k.k"].string_value'), { line: 5, column: 33 })
  assert.deepEqual(positions.nearest('input[0].reshape.shape[2]'), { line: 3, column: 3 })
  assert.equal(positions.nearest('max_batch_size'), null)
})

test('any text is either read or refused with a position, and soon', () => {
  const word = fc.constantFrom(
    'input',
    'dims',
    'name',
    '{',
    '}',
    '[',
    ']',
    ':',
    ',',
    '"',
    "'",
    '\\',
    '-',
    '1',
    '0x',
    '.',
    '<',
    '>',
    '#',
    '\n',
    'TYPE_FP32',
  )
  const text = fc.oneof(
    fc.string(),
    fc.array(word, { maxLength: 40 }).map((words) => words.join(' ')),
  )
  fc.assert(
    fc.property(text, (input) => {
      for (const error of inspectModelConfigText(input).errors) assert.ok(error.position.line >= 1)
    }),
    { numRuns: 500 },
  )
})

// Elements in JSON, both ways: what tensor-data-reader.ts reads and what tensor-data-writer.ts writes.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { DataType } from '../tensor/data-type.ts'
import { Tensor } from '../tensor/tensor.ts'
import { JsonScanner } from './json-scanner.ts'
import { JsonTextWriter } from './json-text-writer.ts'
import { readTensorData } from './tensor-data-reader.ts'
import { writeTensorData } from './tensor-data-writer.ts'

function read(dataType: DataType, texts: readonly string[]): Uint8Array {
  const scanner = new JsonScanner(Buffer.from(`[${texts.join(', ')}]`))
  const { bytes, error } = readTensorData(scanner, 'X', dataType, texts.length, 2 ** 26)
  assert.equal(error, null)
  assert.equal(scanner.position, scanner.end)
  return Uint8Array.from(bytes)
}

const doubles = (texts: readonly string[]): number[] => [...new Float64Array(read('FP64', texts).buffer)]
const floats = (texts: readonly string[]): number[] => [...new Float32Array(read('FP32', texts).buffer)]

function write(dataType: DataType, bytes: Uint8Array, count: number): string {
  const writer = new JsonTextWriter()
  writeTensorData(writer, new Tensor('X', dataType, [count], bytes))
  return writer.finish().toString()
}

/** Decimals as people and programs write them, and some that nobody writes. */
const decimal = fc
  .tuple(
    fc.boolean(),
    fc.stringMatching(/^(0|[1-9]\d{0,24})$/),
    fc.option(fc.stringMatching(/^\d{1,25}$/)),
    fc.option(fc.integer({ min: -330, max: 280 })),
  )
  .map(
    ([isNegative, whole, fraction, exponent]) =>
      `${isNegative ? '-' : ''}${whole}${fraction === null ? '' : `.${fraction}`}${exponent === null ? '' : `e${exponent}`}`,
  )

test('FP64 elements are the nearest doubles to their texts', () => {
  const anyText = fc.oneof(
    decimal,
    fc.double({ noDefaultInfinity: true, noNaN: true }).map(String),
    fc.double({ min: -10, max: 10, noNaN: true }).map((value) => value.toPrecision(17)),
  )
  fc.assert(
    fc.property(fc.array(anyText, { minLength: 1 }), (texts) => assert.deepEqual(doubles(texts), texts.map(Number))),
    { numRuns: 2000 },
  )
})

test('FP32 elements are their double rounded once more', () => {
  const anyText = fc.oneof(
    decimal,
    fc.float({ noDefaultInfinity: true, noNaN: true }).map(String),
    // Close to halfway between two floats, where a careless sum of digits would go the wrong way.
    fc.float({ min: 1, max: 2, noNaN: true }).map((value) => String(value + 2 ** -24)),
  )
  fc.assert(
    fc.property(fc.array(anyText, { minLength: 1 }), (texts) =>
      assert.deepEqual(floats(texts), texts.map(Number).map(Math.fround)),
    ),
    { numRuns: 2000 },
  )
})

test('NaN and the infinities are elements in all their spellings', () => {
  assert.deepEqual(doubles(['NaN', '-NaN', 'Inf', 'Infinity', '-Inf', '-Infinity']), [
    Number.NaN,
    Number.NaN,
    Infinity,
    Infinity,
    -Infinity,
    -Infinity,
  ])
})

test('INT64 and UINT64 elements keep all their digits, both ways', () => {
  fc.assert(
    fc.property(
      fc.array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { minLength: 1 }),
      fc.array(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), { minLength: 1 }),
      (signed, unsigned) => {
        const signedBytes = read('INT64', signed.map(String))
        const unsignedBytes = read('UINT64', unsigned.map(String))
        assert.deepEqual([...new BigInt64Array(signedBytes.buffer as ArrayBuffer)], signed)
        assert.deepEqual([...new BigUint64Array(unsignedBytes.buffer as ArrayBuffer)], unsigned)
        assert.equal(write('INT64', signedBytes, signed.length), `[${signed.join(',')}]`)
        assert.equal(write('UINT64', unsignedBytes, unsigned.length), `[${unsigned.join(',')}]`)
      },
    ),
    { numRuns: 1000 },
  )
})

test('integers beyond the element width wrap, as in C', () => {
  const value = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
  fc.assert(
    fc.property(fc.array(value, { minLength: 1 }), (values) => {
      const texts = values.map(String)
      const wrapped = (bits: number): number[] => values.map((each) => Number(BigInt.asIntN(bits, each)))
      assert.deepEqual([...new Int8Array(read('INT8', texts).buffer)], wrapped(8))
      assert.deepEqual([...new Int16Array(read('INT16', texts).buffer)], wrapped(16))
      assert.deepEqual([...new Int32Array(read('INT32', texts).buffer)], wrapped(32))
    }),
    { numRuns: 300 },
  )
  assert.deepEqual([...read('UINT8', ['256', '257', '18446744073709551615'])], [0, 1, 255])
})

test('doubles are printed as RapidJSON prints them', () => {
  const cases: [value: number, text: string][] = [
    [0, '0.0'],
    [-0, '-0.0'],
    [1, '1.0'],
    [-2.5, '-2.5'],
    [0.1, '0.1'],
    [Math.fround(0.1), '0.10000000149011612'],
    [16777216, '16777216.0'],
    [9007199254740992, '9007199254740992.0'],
    [123456789012345680000, '123456789012345680000.0'],
    [1e21, '1e21'],
    [1e22, '1e22'],
    [1.5e300, '1.5e300'],
    [1e-6, '0.000001'],
    [0.00001, '0.00001'],
    [1e-7, '1e-7'],
    [1.5e-7, '1.5e-7'],
    [5e-324, '5e-324'],
    [Number.NaN, 'NaN'],
    [Infinity, 'Infinity'],
    [-Infinity, '-Infinity'],
  ]
  const values = Float64Array.from(cases, ([value]) => value)
  const texts = cases.map(([, text]) => text)
  assert.equal(write('FP64', new Uint8Array(values.buffer), cases.length), `[${texts.join(',')}]`)
})

test('a printed double reads back as itself and has a point or an exponent', () => {
  const value = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer().map((n) => n / 1000),
    fc.float({ noNaN: true, noDefaultInfinity: true }),
  )
  fc.assert(
    fc.property(value, (each) => {
      const text = write('FP64', new Uint8Array(Float64Array.of(each).buffer), 1).slice(1, -1)
      assert(Object.is(Number(text), each), text)
      assert.match(text, /[.e]/)
      assert.equal(text.includes('+'), false)
      if (!Number.isInteger(each)) assert.equal(text, String(each).replace('e+', 'e'))
    }),
    { numRuns: 3000 },
  )
})

test('a printed float is the text of the double it widens to', () => {
  const value = fc.oneof(
    fc.float({ noNaN: true, noDefaultInfinity: true }),
    fc.integer({ min: -1e6, max: 1e6 }).map((n) => Math.fround(n / 64)),
  )
  fc.assert(
    fc.property(value, (each) => {
      const single = write('FP32', new Uint8Array(Float32Array.of(each).buffer), 1)
      assert.equal(single, write('FP64', new Uint8Array(Float64Array.of(each).buffer), 1))
    }),
    { numRuns: 3000 },
  )
})

test('strings keep their bytes, valid UTF-8 or not, and control characters become upper-case escapes', () => {
  const element = Uint8Array.of(7, 0, 0, 0, 0xff, 0xfe, 0x22, 0x5c, 0x1f, 0x0a, 0x2f)
  const writer = new JsonTextWriter()
  writeTensorData(writer, new Tensor('X', 'BYTES', [1], element))
  assert.equal(writer.finish().toString('latin1'), '["\xff\xfe\\"\\\\\\u001F\\n/"]')
})

test('BYTES elements survive reading and writing', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme' }), { minLength: 1 }), (texts) => {
      const bytes = read(
        'BYTES',
        texts.map((text) => JSON.stringify(text)),
      )
      assert.deepEqual(JSON.parse(write('BYTES', bytes, texts.length)), texts)
    }),
    { numRuns: 500 },
  )
})

test('elements come flat whatever their nesting', () => {
  const scanner = new JsonScanner(Buffer.from('[[[1],[[]], 2] , [ ] ,[3,\n[4]]]'))
  const { bytes } = readTensorData(scanner, 'X', 'UINT8', 4, 100)
  assert.deepEqual([...bytes], [1, 2, 3, 4])
})

test('a buffer that grows ends at exactly the number of elements, whatever the nesting', () => {
  for (const count of [1, 16, 17, 33, 1000, 4097]) {
    for (const [dataType, element] of [
      ['FP64', '7'],
      ['UINT8', '7'],
      ['BOOL', 'true'],
    ] as const) {
      const scanner = new JsonScanner(Buffer.from(`[[],${Array.from({ length: count }, () => element).join(',')}]`))
      const { bytes, error } = readTensorData(scanner, 'X', dataType, count, 2 ** 26)
      assert.equal(error, null)
      const width = dataType === 'FP64' ? 8 : 1
      assert.equal(bytes.length, count * width)
      assert.deepEqual(bytes.subarray(0, width), bytes.subarray((count - 1) * width))
    }
  }
})

const wrong: [dataType: DataType, text: string, count: number, message: string][] = [
  ['FP32', '[1,2]', 3, "Unable to parse 'data': Shape does not match true shape of 'data' field"],
  ['FP32', '[1,2,3]', 2, "Unable to parse 'data': Shape does not match true shape of 'data' field"],
  ['FP32', '[1,2,"x"]', 2, "Unable to parse 'data': Shape does not match true shape of 'data' field"],
  ['FP32', '["1"]', 1, "Unable to parse 'data': attempt to access JSON non-number as double"],
  ['FP64', '[{}]', 1, "Unable to parse 'data': attempt to access JSON non-number as double"],
  ['INT32', '[1.0]', 1, "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"],
  [
    'INT64',
    '[9223372036854775808]',
    1,
    "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
  ],
  [
    'INT64',
    '[-9223372036854775809]',
    1,
    "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
  ],
  [
    'UINT64',
    '[18446744073709551616]',
    1,
    "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer",
  ],
  ['UINT8', '[-1]', 1, "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer"],
  ['BOOL', '[1]', 1, "Unable to parse 'data': attempt to access JSON non-boolean as boolean"],
  ['BYTES', '[1]', 1, 'Unable to parse JSON bytes array: attempt to access JSON non-string as string'],
  ['INT64', '[1,2]', 2 ** 24, "Unable to parse 'data': Shape does not match true shape of 'data' field"],
]
for (const [dataType, text, count, message] of wrong) {
  test(`${dataType} elements ${text} for a shape of ${count}: ${message.slice(0, 70)}`, () => {
    const scanner = new JsonScanner(Buffer.from(text))
    const { error } = readTensorData(scanner, 'X', dataType, count, 2 ** 26)
    assert.equal(error?.message, message)
    assert.equal(scanner.position, scanner.end)
  })
}

test('elements that fit their shape and are larger than allowed are refused with the flag that allows more', () => {
  const scanner = new JsonScanner(Buffer.from('[1,2,3]'))
  assert.equal(
    readTensorData(scanner, 'X', 'INT64', 3, 23).error?.message,
    "JSON input 'X' has a byte_size (24 bytes) that exceeds the maximum allowed value of 23 bytes. Use --http-max-input-size to increase the limit.",
  )
  assert.equal(scanner.position, scanner.end)
})

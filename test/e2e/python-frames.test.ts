// The wire format between the server and a Python worker is written twice, in TypeScript and in Python. Both halves know
// the same numbers, and each reads what the other writes.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { test } from 'node:test'
import { encodeExecute } from '../../src/backends/worker-process/execute-frame.ts'
import * as frames from '../../src/backends/worker-process/frames.ts'
import { readResponse } from '../../src/backends/worker-process/response-record.ts'
import { TensorRecordReader } from '../../src/backends/worker-process/tensor-records.ts'
import { errorCodes } from '../../src/base/server-error.ts'
import { configMessage, emptyModelConfig } from '../../src/config/model-config.ts'
import { enumTypes } from '../../src/config/model-config-schema.ts'
import { ModelSignature } from '../../src/config/model-signature.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { deviceAddressOf, deviceBytes } from '../../src/cuda/device-bytes.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { configDataType, dataTypeCode, dataTypes } from '../../src/tensor/data-type.ts'
import { numbersOf, tensorOfNumbers, tensorOfStrings } from '../../src/tensor/typed-values.ts'
import { testPython } from './python-checks.ts'

type Report = {
  readonly numbers: Readonly<Record<string, number>>
  readonly structs: Readonly<Record<string, string>>
  readonly types: readonly string[]
  readonly errors: readonly string[]
  readonly logLevels: readonly string[]
  readonly metricOperations: Readonly<Record<string, number>>
  readonly execute: { readonly kind: number; readonly id: number; readonly requests: readonly unknown[] }
  readonly executed: string
}

function signatureOf(inputs: readonly string[], outputs: readonly string[]): ModelSignature {
  const config = emptyModelConfig()
  config.input = inputs.map((name) => configMessage('ModelInput', { name, dataType: 'TYPE_FP32', dims: [-1] }))
  config.output = outputs.map((name) => configMessage('ModelOutput', { name, dataType: 'TYPE_FP32', dims: [-1] }))
  return new ModelSignature(config)
}

/** Each field with a value that no other field has. */
const requests = [
  new InferenceRequest({
    modelName: 'm',
    id: 'identity',
    inputs: [
      tensorOfNumbers('B', 'FP32', [1, 3], Float32Array.of(0.5, 1.5, 2.5)),
      tensorOfStrings('unlisted', [2], ['ab', '']),
    ],
    requestedOutputs: ['Y'],
    parameters: new Map<string, bigint | boolean>([
      ['limit', 3n],
      ['flag', true],
    ]),
    correlationId: 77n,
    isSequenceStart: true,
    timeoutUs: 1234n,
    sink: () => undefined,
  }),
  new InferenceRequest({
    modelName: 'm',
    inputs: [
      tensorOfNumbers('A', 'INT64', [], BigInt64Array.of(-5n)),
      new Tensor('B', 'FP32', [2], deviceBytes(3, 4096, 64, new Uint8Array(64).fill(0xab)).subarray(16, 24)),
    ],
    correlationId: 'text',
    isSequenceEnd: true,
    sink: () => undefined,
  }),
]
const regionBytes = deviceBytes(3, 8192, 256, new Uint8Array(64).fill(0xcd))
;(requests[0] as InferenceRequest).outputPlaces = new Map([['Y', regionBytes.subarray(32, 96)]])
const { frame } = encodeExecute(21, requests, 40, signatureOf(['A', 'B'], ['X', 'Y']), null, true)

const { stdout, stderr } = spawnSync(testPython(), ['-B', '-m', 'tests.report_frames'], {
  cwd: path.join(import.meta.dirname, '..', '..', 'python'),
  input: frame.toString('hex'),
  encoding: 'utf8',
})
assert.notEqual(stdout, '', stderr)
const report = JSON.parse(stdout) as Report

test('both halves have the same numbers under the same names', () => {
  const constant = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()
  const named = (prefix: string, table: Readonly<Record<string, number>>): (readonly [string, number])[] =>
    Object.entries(table).map(([name, value]) => [prefix + constant(name), value])
  const { inline, shared, device, named: namedIndex } = frames
  const ours = [
    ...named('', frames.toWorker),
    ...named('', frames.fromWorker),
    ...named('REQUEST_', frames.requestFlags),
    ...named('RESPONSE_', frames.responseFlags),
    ...named('BLS_', frames.blsFlags),
    ...named('', { inline, shared, device, named: namedIndex }),
  ]
  assert.deepEqual(report.numbers, Object.fromEntries(ours))
})

test('heads have the same size, and what is read by its offset has that layout', () => {
  const sizes: Readonly<Record<string, number>> = { B: 1, x: 1, H: 2, I: 4, Q: 8, q: 8, d: 8 }
  const sizeOf = (name: string): number =>
    (report.structs[name] ?? '')
      .slice(1)
      .split('')
      .reduce((sum, letter) => sum + (sizes[letter] ?? NaN), 0)
  assert.equal(sizeOf('HEADER'), frames.headerBytes)
  assert.equal(sizeOf('REQUEST'), frames.requestHeadBytes)
  assert.equal(sizeOf('RESPONSE_HEAD'), frames.responseHeadBytes)
  assert.equal(sizeOf('BLS_HEAD'), frames.blsHeadBytes)
  const executedHead = frames.headerBytes + frames.executionTimeBytes + frames.responseHeadBytes
  assert.equal(sizeOf('EXECUTED_HEAD'), executedHead)
  const tensor = (report.structs['TENSOR'] ?? '').replace('0q', '')
  assert.equal(tensor, '<HBBIQQ')
  assert.equal(frames.tensorHeadBytes, 24)
  const { LOG_HEAD, METRIC_OPERATION, NAME_LENGTH, OFFSET } = report.structs
  assert.deepEqual([LOG_HEAD, METRIC_OPERATION, NAME_LENGTH, OFFSET], ['<BxHI', '<Id', '<Q', '<Q'])
})

test('data types, error codes, log levels and changes of a metric have the same places', () => {
  assert.deepEqual(
    report.types,
    ['INVALID', ...dataTypes].toSorted((a, b) => numberOf(a) - numberOf(b)),
  )
  for (const dataType of dataTypes) {
    assert.equal(enumTypes.DataType[configDataType(dataType) as keyof typeof enumTypes.DataType], numberOf(dataType))
  }
  assert.deepEqual(report.errors, errorCodes)
  assert.deepEqual(report.logLevels, frames.logLevels)
  assert.deepEqual(
    report.metricOperations,
    Object.fromEntries(frames.metricOperations.map((operation, place) => [operation, place])),
  )
})

const numberOf = (dataType: string): number =>
  dataType === 'INVALID' ? 0 : dataTypeCode[dataType as keyof typeof dataTypeCode]

test('Python reads the requests that the server writes', () => {
  assert.deepEqual(report.execute, {
    kind: frames.toWorker.execute,
    id: 21,
    requests: [
      {
        handle: 40,
        correlationId: 77,
        timeout: 1234,
        flags: frames.requestFlags.sequenceStart,
        id: 'identity',
        parameters: '{"limit":3,"flag":true}',
        requested: ['Y'],
        places: { Y: [64, 'cd'.repeat(64), 32, 3] },
        trace: null,
        isCancelled: false,
        inputs: [
          ['B', 'FP32', [1, 3], [[0.5, 1.5, 2.5]]],
          ['unlisted', 'BYTES', [2], ['ab', '']],
        ],
      },
      {
        handle: 41,
        correlationId: 'text',
        timeout: 0,
        flags: frames.requestFlags.sequenceEnd,
        id: '',
        parameters: '{}',
        requested: ['X', 'Y'],
        places: null,
        trace: null,
        isCancelled: false,
        inputs: [
          ['A', 'INT64', [], -5],
          ['B', 'FP32', [2], ['ab'.repeat(64), 16, 3]],
        ],
      },
    ],
  })
})

test('the server reads the responses that Python writes', () => {
  const written = Buffer.from(report.executed, 'hex')
  const head = [
    written.readUInt32LE(0),
    written.readUInt16LE(4),
    written.readUInt16LE(6),
    frames.readUint64(written, 8),
  ]
  assert.deepEqual(head, [written.length, frames.fromWorker.executed, 4, 7])
  assert.equal(frames.readUint64(written, frames.headerBytes), 12345)
  const reader = new TensorRecordReader(null, ['X', 'Y'])
  const place = regionBytes.subarray(64)
  let places: ReadonlyMap<string, Uint8Array> | null = new Map([['X', place]])
  const read = (start: number): ReturnType<typeof readResponse> =>
    readResponse(
      written,
      start,
      reader,
      () => undefined,
      (handle) => (handle === 12 ? places : null),
    )

  const answer = read(frames.headerBytes + frames.executionTimeBytes)
  const outputs = answer.response.outputs.map((output) => [
    output.name,
    output.dataType,
    output.shape,
    Array.from<number | bigint>(numbersOf(output)),
  ])
  assert.deepEqual(outputs, [
    ['X', 'INT16', [1, 3], [1, 2, 3]],
    ['named', 'FP64', [1], [1.5]],
  ])
  assert.deepEqual([answer.handle, answer.response.isFinal], [9, false])
  assert.deepEqual([...(answer.response.parameters ?? [])], [['a', 1n]])

  const failure = read(answer.end)
  const { error } = failure.response
  assert.deepEqual(
    [failure.handle, failure.response.isFinal, error?.code, error?.message],
    [10, true, 'NOT_FOUND', 'no'],
  )

  const flag = read(failure.end)
  assert.deepEqual([flag.handle, flag.response.isFlagOnly, flag.response.isFinal], [11, true, true])

  const [placed] = read(flag.end).response.outputs
  assert.deepEqual([placed?.name, placed?.shape, placed?.bytes.length], ['X', [3], 12])
  assert.equal(deviceAddressOf(placed?.bytes ?? new Uint8Array()), 8192 + 64)
  for (places of [null, new Map([['X', place.subarray(0, 11)]])]) {
    assert.throws(() => read(flag.end), /on a GPU where nobody wants it/)
  }
})

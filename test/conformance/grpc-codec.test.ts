// Our codec of the hot messages beside a general protobuf library: the same values of the same bytes, the same refusals.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import protobuf from 'protobufjs'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { ServerError } from '../../src/base/server-error.ts'
import { classifiedOutputs } from '../../src/protocol/grpc/classified-outputs.ts'
import { encodeContents } from '../../src/protocol/grpc/infer-contents.ts'
import { readInferRequest, type WireParameters } from '../../src/protocol/grpc/infer-request-reader.ts'
import { writeInferResponse, writeStreamResponse } from '../../src/protocol/grpc/infer-response-writer.ts'
import { decodeMessage, encodeMessage } from '../../src/protocol/grpc/message-codec.ts'
import { dataTypes, type DataType } from '../../src/tensor/data-type.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { signatureOf } from '../fixtures/signature-of.ts'
import { arbitraryModelConfig } from '../fixtures/model-config/arbitrary-model-config.ts'
import { inferenceProtos } from './golden/grpc-exchange.ts'

const root = inferenceProtos()
const requestType = root.lookupType('inference.ModelInferRequest')
const responseType = root.lookupType('inference.ModelInferResponse')
const streamType = root.lookupType('inference.ModelStreamInferResponse')
const limits = { maxTensors: 256, maxRank: 16, maxParameters: 256, maxIdBytes: 1024 }
const runs = { numRuns: 10_000 }

const toObject = (type: protobuf.Type, bytes: Uint8Array): Record<string, unknown> =>
  type.toObject(type.decode(bytes), { longs: String, defaults: true, arrays: true, objects: true, oneofs: true })

const text = fc.string({ maxLength: 12, unit: 'grapheme' })
const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const uint64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })

const parameter = fc.oneof(
  fc.record({ bool_param: fc.boolean() }),
  fc.record({ int64_param: int64.map(String) }),
  fc.record({ string_param: text }),
  fc.record({ double_param: fc.double() }),
  fc.record({ uint64_param: uint64.map(String) }),
  fc.constant({}),
)
const parameters = fc.dictionary(
  text.filter((key) => key !== '__proto__'),
  parameter,
  { maxKeys: 4 },
)

const few = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(one, { maxLength: 6 })
const contents = fc.oneof(
  fc.record({ bool_contents: few(fc.boolean()) }),
  fc.record({ int_contents: few(fc.integer()) }),
  fc.record({ int64_contents: few(int64.map(String)) }),
  fc.record({ uint_contents: few(fc.integer({ min: 0, max: 2 ** 32 - 1 })) }),
  fc.record({ uint64_contents: few(uint64.map(String)) }),
  fc.record({ fp32_contents: few(fc.float()) }),
  fc.record({ fp64_contents: few(fc.double()) }),
  fc.record({ bytes_contents: few(fc.uint8Array({ maxLength: 5 })) }),
)

const request = fc.record({
  model_name: text,
  model_version: text,
  id: text,
  parameters,
  inputs: fc.array(
    fc.record(
      {
        name: text,
        datatype: text,
        shape: fc.array(fc.maxSafeInteger(), { maxLength: 5 }),
        parameters,
        contents,
      },
      { requiredKeys: ['name', 'datatype', 'shape'] },
    ),
    { maxLength: 4 },
  ),
  outputs: fc.array(fc.record({ name: text, parameters }), { maxLength: 3 }),
  raw_input_contents: fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 4 }),
})

const plainParameters = (given: WireParameters | null): Record<string, unknown> =>
  Object.fromEntries(
    [...(given ?? new Map())].map(([name, { kind, value }]: [string, { kind: string; value: unknown }]) => [
      name,
      kind === 'not set' ? {} : { [kind]: typeof value === 'bigint' ? String(value) : value, parameter_choice: kind },
    ]),
  )

/** Our reading, in the library's words. */
function readOurs(bytes: Buffer): Record<string, unknown> {
  const read = readInferRequest(bytes, limits)
  return {
    model_name: read.modelName,
    model_version: read.modelVersion,
    id: read.id,
    parameters: plainParameters(read.parameters),
    inputs: read.inputs.map((input) => ({
      name: input.name,
      datatype: input.dataType,
      shape: input.shape.map(String),
      parameters: plainParameters(input.parameters),
      contents: input.contents === null ? null : Buffer.concat(input.contents).toString('hex'),
    })),
    outputs: read.outputs.map(({ name, parameters: given }) => ({ name, parameters: plainParameters(given) })),
    raw_input_contents: read.rawContents.map((raw) => raw.toString('hex')),
  }
}

function readTheirs(bytes: Buffer): Record<string, unknown> {
  const contentsType = root.lookupType('inference.InferTensorContents')
  const decoded = requestType.decode(bytes) as unknown as { inputs: { contents: protobuf.Message | null }[] }
  const object = toObject(requestType, bytes) as Record<string, unknown> & {
    inputs: Record<string, unknown>[]
    raw_input_contents: Uint8Array[]
  }
  const inputs = object.inputs.map((input, index) => {
    const given = decoded.inputs[index]?.contents ?? null
    return {
      ...input,
      contents: given === null ? null : Buffer.from(contentsType.encode(given).finish()).toString('hex'),
    }
  })
  return {
    ...object,
    inputs,
    raw_input_contents: object.raw_input_contents.map((raw) => Buffer.from(raw).toString('hex')),
  }
}

test('a ModelInferRequest is read as the general library reads it', () => {
  fc.assert(
    fc.property(request, (message) => {
      const bytes = Buffer.from(requestType.encode(requestType.fromObject(message)).finish())
      assert.deepEqual(readOurs(bytes), readTheirs(bytes))
    }),
    runs,
  )
})

test('raw contents are views on the message, not copies', () => {
  const message = { model_name: 'm', raw_input_contents: [Buffer.from('abc'), Buffer.alloc(0)] }
  const bytes = Buffer.from(requestType.encode(requestType.fromObject(message)).finish())
  for (const raw of readInferRequest(bytes, limits).rawContents) assert.equal(raw.buffer, bytes.buffer)
})

test('damaged bytes that the general library refuses are refused, and never anything but a ServerError', () => {
  let refused = 0
  fc.assert(
    fc.property(request, fc.nat(), fc.nat(255), fc.boolean(), (message, at, byte, isCut) => {
      const whole = Buffer.from(requestType.encode(requestType.fromObject(message)).finish())
      const place = whole.length === 0 ? 0 : at % whole.length
      const bytes = isCut ? whole.subarray(0, place) : Buffer.from(whole)
      if (!isCut && whole.length > 0) bytes[place] = byte
      let isRefusedByLibrary = false
      try {
        requestType.decode(bytes)
      } catch {
        isRefusedByLibrary = true
      }
      let isRefused = false
      try {
        const read = readInferRequest(bytes, limits)
        for (const input of read.inputs) {
          // Contents are looked at when their tensor is made; any type will do to walk them.
          for (const type of dataTypes) {
            try {
              if (input.contents !== null) encodeContents(input.contents, type, 'x')
            } catch (reason) {
              assert.ok(reason instanceof ServerError, String(reason))
              if (reason.message.startsWith('the message is not valid')) throw reason
            }
          }
        }
      } catch (reason) {
        assert.ok(reason instanceof ServerError, String(reason))
        isRefused = true
      }
      if (isRefusedByLibrary) {
        refused++
        assert.ok(isRefused, `the library refuses ${bytes.toString('hex')}`)
      }
    }),
    runs,
  )
  assert.ok(refused > 500, `only ${refused} messages were damaged enough to tell`)
})

const fieldOf: Partial<Record<DataType, [field: string, array: (values: readonly never[]) => ArrayBufferView]>> = {
  BOOL: ['bool_contents', (values) => Uint8Array.from(values, Number)],
  INT8: ['int_contents', (values) => Int8Array.from(values)],
  INT16: ['int_contents', (values) => Int16Array.from(values)],
  INT32: ['int_contents', (values) => Int32Array.from(values)],
  UINT8: ['uint_contents', (values) => Uint8Array.from(values)],
  UINT16: ['uint_contents', (values) => Uint16Array.from(values)],
  UINT32: ['uint_contents', (values) => Uint32Array.from(values)],
  INT64: ['int64_contents', (values) => BigInt64Array.from(values, BigInt)],
  UINT64: ['uint64_contents', (values) => BigUint64Array.from(values, BigInt)],
  FP32: ['fp32_contents', (values) => Float32Array.from(values)],
  FP64: ['fp64_contents', (values) => Float64Array.from(values)],
}

test('typed contents become the bytes of their tensor, packed or not', () => {
  const contentsType = root.lookupType('inference.InferTensorContents')
  fc.assert(
    fc.property(
      fc.constantFrom(...(Object.keys(fieldOf) as DataType[])),
      fc.array(fc.integer({ min: 0, max: 127 }), { maxLength: 20 }),
      fc.boolean(),
      (dataType, numbers, isPacked) => {
        const [field, array] = fieldOf[dataType] as NonNullable<(typeof fieldOf)[DataType]>
        const values = dataType === 'BOOL' ? numbers.map((value) => value % 2 === 1) : numbers
        const message = contentsType.fromObject({ [field]: values })
        let bytes = Buffer.from(contentsType.encode(message).finish())
        if (!isPacked) {
          // One field per element, as old writers send it: concatenated messages are one message.
          bytes = Buffer.concat(
            values.map((value) => {
              const packed = Buffer.from(contentsType.encode(contentsType.fromObject({ [field]: [value] })).finish())
              const wireType = dataType === 'FP32' ? 5 : dataType === 'FP64' ? 1 : 0
              return Buffer.concat([Buffer.of(((packed[0] as number) & 0xf8) | wireType), packed.subarray(2)])
            }),
          )
        }
        const expected = array(values as never[])
        const tensor = encodeContents([bytes], dataType, 'x')
        assert.equal(Buffer.from(tensor).toString('hex'), Buffer.from(expected.buffer as ArrayBuffer).toString('hex'))
      },
    ),
    { numRuns: 2000 },
  )
})

test('hostile contents cost at most eight bytes for each byte sent', () => {
  const packed = Buffer.concat([Buffer.of(0x1a, 0x80, 0x80, 0x40), Buffer.alloc(1024 * 1024)])
  assert.equal(encodeContents([packed], 'INT64', 'x').byteLength, 8 * 1024 * 1024)
  const shape = Buffer.concat([Buffer.of(0x2a, 0x84, 0x80, 0x04, 0x1a, 0x80, 0x80, 0x04), Buffer.alloc(65536)])
  assert.throws(() => readInferRequest(shape, limits), /too many dimensions.*--max-tensor-rank/)
  const empties = Buffer.alloc(2 * 1024 * 1024)
  for (let at = 0; at < empties.length; at += 2) empties[at] = 0x2a
  assert.throws(() => readInferRequest(empties, limits), /too many inputs.*--max-request-tensors/)
  for (let at = 0; at < empties.length; at += 2) empties[at] = 0x3a
  assert.equal(readInferRequest(empties.subarray(0, 40_000), limits).rawContents.length, limits.maxTensors)
  assert.throws(() => readInferRequest(empties, limits), /more than 23552 fields/)
  for (let at = 0; at < empties.length; at += 2) empties[at] = 0x22
  assert.throws(() => readInferRequest(empties, limits), /too many parameters.*--max-request-parameters/)
})

const responseParameters = fc.dictionary(
  text.filter((key) => key !== '__proto__'),
  fc.oneof(fc.boolean(), text, int64, fc.double()),
  { maxKeys: 4 },
)
const outputs = fc.array(
  fc.record({
    name: text,
    dataType: fc.constantFrom(...dataTypes),
    shape: fc.array(fc.nat(), { maxLength: 4 }),
    bytes: fc.oneof(
      { weight: 9, arbitrary: fc.uint8Array({ maxLength: 30 }) },
      { weight: 1, arbitrary: fc.constant(new Uint8Array(9000).fill(7)) },
    ),
  }),
  { maxLength: 4 },
)

test('a ModelInferResponse is written as the general library reads it', () => {
  fc.assert(
    fc.property(
      text,
      text,
      text,
      responseParameters,
      outputs,
      fc.boolean(),
      (name, version, id, given, list, isFinal) => {
        const tensors = list.map((one) => new Tensor(one.name, one.dataType, one.shape, one.bytes))
        const response = InferenceResponse.of(tensors, { parameters: new Map(Object.entries(given)) })
        const context = { modelName: name, modelVersion: version, id, outputs: [] }
        const unary = writeInferResponse(response, context)
        const bytes = Buffer.concat(unary.parts)
        assert.equal(bytes.length, unary.byteLength)
        const expected = {
          model_name: name,
          model_version: version,
          id,
          parameters: Object.fromEntries(Object.entries(given).map(([key, value]) => [key, choiceOf(value)])),
          outputs: list.map((one) => ({
            name: one.name,
            datatype: one.dataType,
            shape: one.shape.map(String),
            parameters: {},
            contents: null,
          })),
          raw_output_contents: list.map((one) => Buffer.from(one.bytes)),
        }
        assert.deepEqual(bare(toObject(responseType, bytes)), expected)
        const streamed = toObject(streamType, Buffer.concat(writeStreamResponse(response, context, isFinal).parts))
        const inner = bare(streamed['infer_response'] as Record<string, unknown>)
        const parametersThere = { ...expected.parameters, triton_final_response: choiceOf(isFinal) }
        assert.deepEqual(inner, { ...expected, parameters: parametersThere })
      },
    ),
    runs,
  )
})

test('classes of an output may be longer than the output, also in a stream', () => {
  const scores = new Tensor(
    'S',
    'FP32',
    [2000],
    new Uint8Array(Float32Array.from({ length: 2000 }, (_, i) => i).buffer),
  )
  const outputs = [{ name: 'S', classificationCount: 2000, sharedMemory: null }]
  const context = { modelName: 'm', modelVersion: '1', id: '', outputs }
  const steps = classifiedOutputs([scores], outputs, signatureOf('m', 0, [], []))
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  const { parts } = writeStreamResponse(InferenceResponse.of(step.value), context, true)
  const { infer_response: inner } = toObject(streamType, Buffer.concat(parts)) as { infer_response: object }
  const [classes = Buffer.alloc(0)] = bare(inner as Record<string, unknown>)['raw_output_contents'] as Buffer[]
  assert.ok(classes.length > 8000 + 2000 * 4)
  assert.equal(classes.toString('latin1', 4, 4 + classes.readUInt32LE(0)), '1999.000000:1999')
})

const bare = (object: Record<string, unknown>): Record<string, unknown> => ({
  ...object,
  raw_output_contents: (object['raw_output_contents'] as Uint8Array[]).map((raw) => Buffer.from(raw)),
})

function choiceOf(value: boolean | string | bigint | number): Record<string, unknown> {
  const kind = { boolean: 'bool_param', string: 'string_param', bigint: 'int64_param', number: 'double_param' }[
    typeof value as 'boolean'
  ]
  return { [kind]: typeof value === 'bigint' ? String(value) : value, parameter_choice: kind }
}

test('any message of the services comes back from the general library as it was', () => {
  const loadType = root.lookupType('inference.RepositoryModelLoadRequest')
  fc.assert(
    fc.property(text, text, fc.uint8Array({ maxLength: 9 }), (name, key, file) => {
      const stored = { repository_name: '', model_name: name, parameters: { [`k${key}`]: { bytes_param: file } } }
      const bytes = Buffer.from(loadType.encode(loadType.fromObject(stored)).finish())
      const value = decodeMessage('RepositoryModelLoadRequest', bytes)
      assert.equal(value['modelName'], name)
      assert.deepEqual(
        toObject(loadType, encodeMessage('RepositoryModelLoadRequest', value)),
        toObject(loadType, bytes),
      )
    }),
  )
})

test('a model configuration is written as the general library reads it', () => {
  const configType = root.lookupType('inference.ModelConfig')
  fc.assert(
    fc.property(arbitraryModelConfig, (config) => {
      const bytes = encodeMessage('ModelConfig', config as unknown as Record<string, unknown>)
      const again = Buffer.from(configType.encode(configType.decode(bytes)).finish())
      assert.equal(again.length, bytes.length)
      const object = configType.toObject(configType.decode(bytes), { defaults: true }) as Record<string, unknown>
      assert.equal(object['name'], config.name)
      assert.equal(object['max_batch_size'], config.maxBatchSize)
      assert.equal((object['input'] as unknown[]).length, config.input.length)
    }),
    { numRuns: 300 },
  )
})

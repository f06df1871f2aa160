import assert from 'node:assert/strict'
import test from 'node:test'
import { InferenceRequest, type InferenceRequestFields } from '../model/inference-request.ts'
import { emptyModelConfig, type ConfigDataType, type ModelSequenceBatchingControl } from '../config/model-config.ts'
import { Tensor } from '../tensor/tensor.ts'
import { SequenceControls } from './sequence-controls.ts'

const control = (fields: Partial<ModelSequenceBatchingControl>): ModelSequenceBatchingControl => ({
  kind: 'CONTROL_SEQUENCE_START',
  int32FalseTrue: [],
  fp32FalseTrue: [],
  boolFalseTrue: [],
  dataType: 'TYPE_INVALID',
  ...fields,
})

function controlsOf(
  controls: Record<string, Partial<ModelSequenceBatchingControl>>,
  maxBatchSize = 0,
): SequenceControls {
  return new SequenceControls({
    ...emptyModelConfig(),
    name: 'm',
    maxBatchSize,
    sequenceBatching: {
      direct: null,
      oldest: null,
      maxSequenceIdleMicroseconds: 0n,
      controlInput: Object.entries(controls).map(([name, fields]) => ({ name, control: [control(fields)] })),
      state: [],
      iterativeSequence: false,
    },
  })
}

const requestOf = (fields: Partial<InferenceRequestFields>): InferenceRequest =>
  new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined, ...fields })

function appended(controls: SequenceControls, fields: Partial<InferenceRequestFields>, isReady = true): Tensor[] {
  const inputs: Tensor[] = []
  controls.append(inputs, requestOf(fields), isReady)
  return inputs
}

test('flags are written as the values that the configuration gives, in each of the three types', () => {
  const controls = controlsOf({
    S: { kind: 'CONTROL_SEQUENCE_START', int32FalseTrue: [-7, 9] },
    E: { kind: 'CONTROL_SEQUENCE_END', boolFalseTrue: [false, true] },
    R: { kind: 'CONTROL_SEQUENCE_READY', fp32FalseTrue: [-1.5, 2.5] },
  })
  const read = (tensors: Tensor[]): number[] =>
    tensors.map(({ dataType, bytes }) => {
      const view = new DataView(bytes.buffer, bytes.byteOffset)
      return dataType === 'INT32'
        ? view.getInt32(0, true)
        : dataType === 'FP32'
          ? view.getFloat32(0, true)
          : view.getUint8(0)
    })
  assert.deepEqual(read(appended(controls, { isSequenceStart: true })), [9, 0, 2.5])
  assert.deepEqual(read(appended(controls, { isSequenceEnd: true })), [-7, 1, 2.5])
  assert.deepEqual(read(appended(controls, { isSequenceStart: true, isSequenceEnd: true }, false)), [-7, 0, -1.5])
  assert.equal(controls.hasReady, true)
})

test('a control has one element, and one row where the model batches', () => {
  const controls = {
    S: { int32FalseTrue: [0, 1] },
    C: { kind: 'CONTROL_SEQUENCE_CORRID', dataType: 'TYPE_INT64' },
  } as const
  const shapes = (maxBatchSize: number): unknown =>
    appended(controlsOf({ S: { int32FalseTrue: [0, 1] }, C: controls.C }, maxBatchSize), { correlationId: 1n }).map(
      ({ shape }) => shape,
    )
  assert.deepEqual(shapes(0), [[1], [1]])
  assert.deepEqual(shapes(4), [
    [1, 1],
    [1, 1],
  ])
})

test('a correlation id fits its control: numbers cut to size, strings framed, and neither taken for the other', () => {
  const bytes = (dataType: ConfigDataType, correlationId: bigint | string): number[] => [
    ...(appended(controlsOf({ C: { kind: 'CONTROL_SEQUENCE_CORRID', dataType } }), { correlationId })[0] as Tensor)
      .bytes,
  ]
  assert.deepEqual(bytes('TYPE_UINT64', 2n ** 64n - 1n), Array(8).fill(255))
  assert.deepEqual(bytes('TYPE_INT32', 2n ** 32n + 5n), [5, 0, 0, 0])
  assert.deepEqual(bytes('TYPE_STRING', 'ab'), [2, 0, 0, 0, 97, 98])
  assert.deepEqual(bytes('TYPE_STRING', 7n), [1, 0, 0, 0, 55])
  const numeric = controlsOf({ C: { kind: 'CONTROL_SEQUENCE_CORRID', dataType: 'TYPE_UINT64' } })
  assert.equal(
    numeric.problem(requestOf({ correlationId: 'ab' })),
    "sequence batching control 'C' data-type is 'BYTES', but model 'm' expects 'UINT64'",
  )
  assert.equal(numeric.problem(requestOf({ correlationId: 7n })), null)
  const text = controlsOf({ C: { kind: 'CONTROL_SEQUENCE_CORRID', dataType: 'TYPE_STRING' } })
  assert.equal(
    text.problem(requestOf({ correlationId: 7n })),
    "sequence batching control 'C' data-type is 'UINT64', but model 'm' expects 'BYTES'",
  )
  assert.equal(text.problem(requestOf({ correlationId: 'ab' })), null)
  assert.equal(text.problem(requestOf({ correlationId: 0n })), null, 'a request without an id')
})

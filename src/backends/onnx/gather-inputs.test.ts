import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyModelConfig } from '../../config/model-config.ts'
import { deviceBytes } from '../../cuda/device-bytes.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { batchLayoutOf } from './batch-layout.ts'
import { gatherInputs } from './gather-inputs.ts'

const requestOf = (tensor: Tensor): InferenceRequest =>
  new InferenceRequest({ modelName: 'm', inputs: [tensor], sink: () => undefined })

test('a runner that takes parts gets those of ragged inputs too: bytes on a GPU cannot be joined here', () => {
  const layout = batchLayoutOf({
    ...emptyModelConfig(),
    maxBatchSize: 8,
    input: [{ name: 'X', allowRaggedBatch: true }] as ReturnType<typeof emptyModelConfig>['input'],
  })
  const places = { modelName: 'm', inputIndex: new Map([['X', 0]]), inputCount: 1, layout }
  const onDevice = [deviceBytes(0, 4096, 8), deviceBytes(0, 8192, 16)] as const
  const requests = onDevice.map((bytes, i) => requestOf(new Tensor('X', 'FP32', [1, 2 + 2 * i], bytes)))
  const [input] = gatherInputs({ ...places, takesParts: true }, requests).inputs
  assert.deepEqual(input?.shape, [6])
  assert.deepEqual(
    input.parts?.map((part) => onDevice.indexOf(part as (typeof onDevice)[0])),
    [0, 1],
  )
  const onHost = [Uint8Array.of(1, 2, 3, 4), Uint8Array.of(5, 6, 7, 8)].map((bytes) =>
    requestOf(new Tensor('X', 'FP32', [1, 1], bytes)),
  )
  const [joined] = gatherInputs(places, onHost).inputs
  assert.deepEqual([joined?.shape, [...(joined?.bytes ?? [])]], [[2], [1, 2, 3, 4, 5, 6, 7, 8]])
})

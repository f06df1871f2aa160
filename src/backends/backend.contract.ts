// What every Backend must do, as a suite that each of them runs; and the small harness that its tests use.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { silentLog, type Log } from '../base/log.ts'
import type { Backend, Instance, InstanceSpec, LoadedModel, ModelFiles } from '../model/backend.ts'
import { Batch } from '../model/batch.ts'
import { InferenceRequest, type InferenceRequestFields } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import { emptyModelConfig, type ConfigDataType, type ModelConfig } from '../config/model-config.ts'
import { ModelSignature } from '../config/model-signature.ts'
import type { DataType } from '../tensor/data-type.ts'
import { Tensor } from '../tensor/tensor.ts'

export type TensorLine = readonly [name: string, dataType: ConfigDataType, dims: readonly number[]]

export function configOf(
  name: string,
  fields: {
    maxBatchSize?: number
    input?: readonly TensorLine[]
    output?: readonly TensorLine[]
    parameters?: Readonly<Record<string, string>>
    isDecoupled?: boolean
  } = {},
): ModelConfig {
  const config = emptyModelConfig()
  config.name = name
  config.maxBatchSize = fields.maxBatchSize ?? 0
  config.input = (fields.input ?? []).map(([tensor, dataType, dims]) => ({
    name: tensor,
    dataType,
    format: 'FORMAT_NONE',
    dims: [...dims],
    reshape: null,
    isShapeTensor: false,
    allowRaggedBatch: false,
    optional: false,
    isNonLinearFormatIo: false,
  }))
  config.output = (fields.output ?? []).map(([tensor, dataType, dims]) => ({
    name: tensor,
    dataType,
    dims: [...dims],
    reshape: null,
    labelFilename: '',
    isShapeTensor: false,
    isNonLinearFormatIo: false,
  }))
  config.parameters = new Map(
    Object.entries(fields.parameters ?? {}).map(([key, stringValue]) => [key, { stringValue }]),
  )
  if (fields.isDecoupled === true) config.modelTransactionPolicy = { decoupled: true }
  return config
}

export const filesOf = (directory: string): ModelFiles => ({
  repositoryPath: directory,
  modelDirectory: directory,
  versionDirectory: `${directory}/1`,
  version: '1',
})

export function loadModel(
  backend: Backend,
  config: ModelConfig,
  files: ModelFiles,
  log: Log = silentLog,
): Promise<LoadedModel> {
  const signature = new ModelSignature(config)
  return backend.load({ name: config.name, version: files.version, config, signature, files, log })
}

export const instanceSpec = (
  model: string,
  index = 0,
  onReadinessChange: () => void = () => undefined,
): InstanceSpec => ({ name: `${model}_${index}`, kind: 'KIND_CPU', deviceId: 0, index, onReadinessChange })

/** A request that keeps its answers, and the promise of the final one. */
export type Asked = {
  readonly request: InferenceRequest
  readonly responses: InferenceResponse[]
  readonly final: Promise<InferenceResponse>
}

export function ask(
  inputs: Tensor[],
  fields: Partial<InferenceRequestFields> & { batchSize?: number; onResponse?: () => void } = {},
): Asked {
  const responses: InferenceResponse[] = []
  const { promise, resolve } = Promise.withResolvers<InferenceResponse>()
  const request = new InferenceRequest({
    modelName: 'm',
    ...fields,
    inputs,
    sink: (response) => {
      responses.push(response)
      fields.onResponse?.()
      if (response.isFinal) resolve(response)
    },
  })
  request.batchSize = fields.batchSize ?? 0
  return { request, responses, final: promise }
}

/** Executes the requests as one batch; resolves when the instance is free again. */
export function executeBatch(instance: Instance, asked: readonly Asked[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const requests = asked.map(({ request }) => request)
  const batchSize = requests.reduce((sum, request) => sum + Math.max(request.batchSize, 1), 0)
  instance.execute(new Batch(requests, batchSize, resolve))
  return promise
}

export async function executeOne(instance: Instance, asked: Asked): Promise<InferenceResponse> {
  await executeBatch(instance, [asked])
  return asked.final
}

export const int32Tensor = (name: string, values: readonly number[], rows?: number): Tensor =>
  rawTensor(name, 'INT32', rows === undefined ? [values.length] : [rows, values.length / rows], Int32Array.from(values))

export const rawTensor = (name: string, dataType: DataType, shape: readonly number[], array: ArrayBufferView): Tensor =>
  new Tensor(name, dataType, shape, new Uint8Array(array.buffer, array.byteOffset, array.byteLength))

export const int32Values = (tensor: Tensor | undefined): number[] => {
  const bytes = Uint8Array.from(tensor?.bytes ?? [])
  return Array.from(new Int32Array(bytes.buffer))
}

/** A backend with a model that copies INPUT0 to OUTPUT0 and INPUT1 to OUTPUT1: INT32, one open dimension, batching. */
export type BackendSubject = { readonly backend: Backend; readonly config: ModelConfig; readonly files: ModelFiles }

export const copyModelConfig = (): ModelConfig =>
  configOf('copy', {
    maxBatchSize: 8,
    input: [
      ['INPUT0', 'TYPE_INT32', [-1]],
      ['INPUT1', 'TYPE_INT32', [-1]],
    ],
    output: [
      ['OUTPUT0', 'TYPE_INT32', [-1]],
      ['OUTPUT1', 'TYPE_INT32', [-1]],
    ],
  })

export function testBackendContract(name: string, createSubject: () => Promise<BackendSubject>): void {
  describe(`${name} keeps the contract of a backend`, () => {
    let subject: BackendSubject
    let model: LoadedModel
    let instance: Instance
    const pair = (a: readonly number[], b: readonly number[], fields: Parameters<typeof ask>[1] = {}): Asked =>
      ask([int32Tensor('INPUT0', a, 1), int32Tensor('INPUT1', b, 1)], { batchSize: 1, ...fields })

    before(async () => {
      subject = await createSubject()
      const config = await subject.backend.complete(subject.config, subject.files)
      model = await loadModel(subject.backend, config, subject.files)
      instance = await model.createInstance(instanceSpec('copy'))
    })
    after(async () => {
      await instance.close()
      await model.close()
      await subject.backend.close()
    })

    test('a request gets exactly one answer, final and with all outputs', async () => {
      const asked = pair([1, 2, 3], [4, 5, 6])
      const response = await executeOne(instance, asked)
      assert.equal(response.error, null)
      assert.equal(asked.responses.length, 1)
      const outputs = response.outputs.map(({ name, dataType, shape }) => [name, dataType, [...shape]])
      assert.deepEqual(outputs, [
        ['OUTPUT0', 'INT32', [1, 3]],
        ['OUTPUT1', 'INT32', [1, 3]],
      ])
      assert.deepEqual(response.outputs.map(int32Values), [
        [1, 2, 3],
        [4, 5, 6],
      ])
    })

    test('the times of an execution are stamped in order before the answer', async () => {
      let stamps: number[] = []
      const asked: Asked = pair([1], [2], {
        onResponse: () => {
          const { computeStartNs, computeInputEndNs, computeOutputStartNs, computeEndNs } = asked.request
          stamps = [computeStartNs, computeInputEndNs, computeOutputStartNs, computeEndNs]
        },
      })
      await executeOne(instance, asked)
      assert.equal(stamps.length, 4)
      assert.ok(stamps.every((stamp) => stamp > 0))
      assert.deepEqual(
        stamps.toSorted((a, b) => a - b),
        stamps,
      )
    })

    test('each request of a batch gets its own rows back', async () => {
      const batch = [pair([1, 2], [3, 4]), pair([5, 6], [7, 8]), pair([9, 10], [11, 12])]
      await executeBatch(instance, batch)
      const answers = await Promise.all(batch.map(({ final }) => final))
      const values = answers.map((answer) => answer.outputs.map(int32Values))
      assert.deepEqual(values, [
        [[1, 2], [3, 4]],
        [[5, 6], [7, 8]],
        [[9, 10], [11, 12]],
      ]) // prettier-ignore
    })

    test('only the outputs that were asked for come back', async () => {
      const response = await executeOne(instance, pair([1], [2], { requestedOutputs: ['OUTPUT1'] }))
      assert.deepEqual(
        response.outputs.map((output) => [output.name, int32Values(output)]),
        [['OUTPUT1', [2]]],
      )
    })

    test('inputs that are unaligned views are read, and stay as they were', async () => {
      const body = new Uint8Array(64)
      new DataView(body.buffer).setInt32(3, 77, true)
      new DataView(body.buffer).setInt32(13, 88, true)
      const before = Uint8Array.from(body)
      const inputs = [
        new Tensor('INPUT0', 'INT32', [1, 1], body.subarray(3, 7)),
        new Tensor('INPUT1', 'INT32', [1, 1], body.subarray(13, 17)),
      ]
      const response = await executeOne(instance, ask(inputs, { batchSize: 1 }))
      assert.deepEqual(response.outputs.map(int32Values), [[77], [88]])
      assert.deepEqual(body, before)
    })

    test('tensors of no elements pass', async () => {
      const response = await executeOne(instance, pair([], []))
      assert.equal(response.error, null)
      assert.deepEqual(response.outputs.map(int32Values), [[], []])
    })

    test('a megabyte passes unchanged', async () => {
      const values = Array.from({ length: 262_144 }, (_, index) => index)
      const response = await executeOne(instance, pair(values, [1]))
      assert.deepEqual(int32Values(response.outputs[0]), values)
    })

    test('a cancelled request still ends exactly once', async () => {
      const asked = pair([1], [2])
      const executed = executeBatch(instance, [asked])
      asked.request.cancel()
      await asked.final
      await executed
      assert.equal(asked.responses.length, 1)
    })

    test('an instance that was closed may be closed again, and others go on', async () => {
      const other = await model.createInstance(instanceSpec('copy', 1))
      assert.ok(other.isReady)
      await other.close()
      await other.close()
      const response = await executeOne(instance, pair([1], [2]))
      assert.equal(response.error, null)
    })
  })
}

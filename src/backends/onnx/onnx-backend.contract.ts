// What the onnxruntime backend promises, whatever calls ONNX Runtime underneath. Run once per binding.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  addSubModel,
  floats,
  identityModel,
  int64s,
  loopModel,
  type OnnxModel,
} from '../../../test/fixtures/onnx/build-onnx.ts'
import {
  addSubInputs,
  framed,
  inferOn,
  inferTogether,
  int32s,
  int32Values,
  OnnxHarness,
} from '../../../test/fixtures/onnx/onnx-harness.ts'
import { emptyModelConfig, type ModelConfig } from '../../config/model-config.ts'
import { copyModelConfig, testBackendContract } from '../backend.contract.ts'
import { dataTypes, elementBytes, type DataType } from '../../tensor/data-type.ts'
import { Tensor } from '../../tensor/tensor.ts'

export type BindingTraits = {
  readonly settings: Readonly<Record<string, string>>
  /** Types that this binding can carry. */
  readonly types: readonly DataType[]
  readonly carriesAnyBytesInStrings: boolean
  readonly canOverrideInitializers: boolean
}

export const allTypes: readonly DataType[] = dataTypes

const plainInput = {
  format: 'FORMAT_NONE',
  reshape: null,
  isShapeTensor: false,
  allowRaggedBatch: false,
  isNonLinearFormatIo: false,
} as const
export const inputConfig = (
  name: string,
  dataType: ModelConfig['input'][0]['dataType'],
  dims: number[],
  optional = false,
) => ({ ...plainInput, name, dataType, dims, optional })
export const outputConfig = (name: string, dataType: ModelConfig['input'][0]['dataType'], dims: number[]) => ({
  name,
  dataType,
  dims,
  reshape: null,
  labelFilename: '',
  isShapeTensor: false,
  isNonLinearFormatIo: false,
})

const offloaded = { execution: 'offloaded' }

/** OUTPUT0 = INPUT0, OUTPUT1 = INPUT1. */
const copyModel: OnnxModel = {
  nodes: ['0', '1'].map((i) => ({ op: 'Identity', inputs: [`INPUT${i}`], outputs: [`OUTPUT${i}`] })),
  inputs: ['0', '1'].map((i) => ({ name: `INPUT${i}`, type: 'INT32', shape: ['batch', `length${i}`] })),
  outputs: ['0', '1'].map((i) => ({ name: `OUTPUT${i}`, type: 'INT32', shape: ['batch', `length${i}`] })),
}

export function describeOnnxBackend(title: string, traits: BindingTraits): void {
  let contractHarness: OnnxHarness | null = null
  after(() => contractHarness?.close())
  testBackendContract(title, async () => {
    const harness = (contractHarness = await OnnxHarness.open(traits.settings))
    const config = copyModelConfig()
    const { files } = await harness.write(copyModel, { name: config.name })
    return { backend: harness.backend, config, files }
  })

  describe(title, () => {
    let harness: OnnxHarness
    before(async () => {
      harness = await OnnxHarness.open(traits.settings)
    })
    after(() => harness.close())

    runningTests(() => harness, traits)
    typeTests(() => harness, traits)
    loadingTests(() => harness)
  })
}

function runningTests(harness: () => OnnxHarness, traits: BindingTraits): void {
  for (const execution of ['inline', 'offloaded']) {
    test(`an ${execution} run gives the sum and the difference in the configuration's order`, async () => {
      const loaded = await harness().load(addSubModel(), { parameters: { execution } })
      // More than twice: the first run of a shape, the one that makes its plan, and those that use it.
      for (let i = 0; i < 5; i++) {
        const response = await loaded.infer(addSubInputs(1, 7 + i, 2))
        assert.equal(response.error, null)
        assert.deepEqual(
          response.outputs.map((output) => [output.name, output.dataType, [...output.shape]]),
          [
            ['OUTPUT0', 'INT32', [1, 16]],
            ['OUTPUT1', 'INT32', [1, 16]],
          ],
        )
        assert.deepEqual(new Set(int32Values(response.outputs[0])), new Set([9 + i]))
        assert.deepEqual(new Set(int32Values(response.outputs[1])), new Set([5 + i]))
        response.release()
      }
      await loaded.close()
    })

    test(`an ${execution} run with a shape or size that the model cannot take is refused and the next one succeeds`, async () => {
      const loaded = await harness().load(addSubModel(), { parameters: { execution } })
      const wrongShape = await loaded.infer(addSubInputs(1, 1, 1, 8))
      assert.equal(wrongShape.error?.code, 'INVALID_ARG')
      assert.match(wrongShape.error?.message ?? '', /'INPUT0'.*\[-1,16\].*\[1,8\]/)
      const cutOff = addSubInputs(1, 1, 1).map(
        (input) => new Tensor(input.name, 'INT32', [1, 16], input.bytes.subarray(0, 60)),
      )
      assert.match((await loaded.infer(cutOff)).error?.message ?? '', /'INPUT0' must have 64 bytes, got 60/)
      const missing = await loaded.infer(addSubInputs(1, 1, 1).slice(0, 1))
      assert.match(missing.error?.message ?? '', /INPUT1/)
      const uneven = [addSubInputs(2, 1, 1)[0] as Tensor, addSubInputs(3, 1, 1)[1] as Tensor]
      assert.match((await loaded.infer(uneven)).error?.message ?? '', /onnx runtime error/)
      assert.equal((await loaded.infer(addSubInputs(1, 1, 1))).error, null)
      await loaded.close()
    })
  }

  test('bytes that are not aligned for their type are used all the same', async () => {
    const loaded = await harness().load(addSubModel('batch', 'FP64', 1024))
    const body = Buffer.alloc(8192 + 3)
    for (let i = 0; i < 1024; i++) body.writeDoubleLE(i, 3 + 8 * i)
    const view = body.subarray(3)
    for (let i = 0; i < 3; i++) {
      const inputs = ['INPUT0', 'INPUT1'].map((name) => new Tensor(name, 'FP64', [1, 1024], view))
      const response = await loaded.infer(inputs)
      assert.equal(response.error, null)
      const sum = new Float64Array(Uint8Array.from(response.outputs[0]?.bytes ?? []).buffer)
      assert.equal(sum[1023], 2046)
      response.release()
    }
    await loaded.close()
  })

  test('bytes in shared memory are used like any others', async () => {
    const loaded = await harness().load(addSubModel('batch', 'INT32', 4096))
    for (let i = 0; i < 3; i++) {
      const shared = new Uint8Array(new SharedArrayBuffer(4096 * 4))
      shared.set(int32s(...Array.from({ length: 4096 }, () => i)))
      const response = await loaded.infer(
        ['INPUT0', 'INPUT1'].map((name) => new Tensor(name, 'INT32', [1, 4096], shared)),
      )
      assert.equal(response.error, null)
      assert.equal(int32Values(response.outputs[0])[4095], 2 * i)
      response.release()
    }
    await loaded.close()
  })

  test('only the outputs that were asked for are computed and returned', async () => {
    const loaded = await harness().load(addSubModel())
    for (let i = 0; i < 3; i++) {
      const response = await loaded.infer(addSubInputs(1, 5, 3), ['OUTPUT1'])
      assert.deepEqual(
        response.outputs.map((output) => output.name),
        ['OUTPUT1'],
      )
      assert.equal(int32Values(response.outputs[0])[0], 2)
    }
    await loaded.close()
  })

  test('requests of one batch are run together and each gets its own rows and outputs', async () => {
    const loaded = await harness().load(addSubModel())
    for (let i = 0; i < 3; i++) {
      const [a, b, c] = await inferTogether(
        loaded.instance,
        [addSubInputs(1, 10, 1), addSubInputs(2, 20, 2), addSubInputs(1, 30, 3)],
        [[], ['OUTPUT0'], ['OUTPUT1']],
      )
      assert.deepEqual(
        a?.outputs.map((output) => int32Values(output)[0]),
        [11, 9],
      )
      assert.deepEqual(
        b?.outputs.map((output) => [output.name, [...output.shape], int32Values(output)[31]]),
        [['OUTPUT0', [2, 16], 22]],
      )
      assert.deepEqual(
        c?.outputs.map((output) => [output.name, int32Values(output)[0]]),
        [['OUTPUT1', 27]],
      )
      for (const response of [a, b, c]) response?.release()
    }
    await loaded.close()
  })

  test('a large batch splits outputs without a copy and frees them when the last response is released', async () => {
    const loaded = await harness().load(addSubModel('batch', 'INT32', 4096))
    for (let i = 0; i < 4; i++) {
      const responses = await inferTogether(loaded.instance, [
        addSubInputs(1, 10 + i, 1, 4096),
        addSubInputs(3, 20 + i, 2, 4096),
      ])
      assert.equal(int32Values(responses[0]?.outputs[0])[4095], 11 + i)
      responses[0]?.release()
      assert.equal(int32Values(responses[1]?.outputs[0])[3 * 4096 - 1], 22 + i)
      responses[1]?.release()
    }
    await loaded.close()
  })

  test('shapes that change from request to request each give their own result', async () => {
    const loaded = await harness().load(addSubModel('batch', 'INT32', 'length'))
    for (const elements of [1, 2000, 3, 2000, 5, 1, 1, 5, 5, 4000, 4000]) {
      const response = await loaded.infer(addSubInputs(2, elements, 1, elements))
      assert.deepEqual([...(response.outputs[0]?.shape ?? [])], [2, elements])
      assert.equal(int32Values(response.outputs[1])[2 * elements - 1], elements - 1)
      response.release()
    }
    await loaded.close()
  })

  test('an output whose shape depends on values comes back in the shape it has', async () => {
    const model: OnnxModel = {
      nodes: [{ op: 'NonZero', inputs: ['INPUT'], outputs: ['OUTPUT'] }],
      inputs: [{ name: 'INPUT', type: 'INT32', shape: ['n'] }],
      // A wrong promise: NonZero does not give as many as there are inputs.
      outputs: [{ name: 'OUTPUT', type: 'INT64', shape: [1, 'n'] }],
    }
    const loaded = await harness().load(model, { config: { maxBatchSize: 0 } })
    for (const values of [
      [0, 1, 2],
      [0, 0, 3],
      [0, 0, 0],
      [1, 1, 1],
      [1, 1, 1],
    ]) {
      const response = await loaded.infer([new Tensor('INPUT', 'INT32', [3], int32s(...values))])
      assert.equal(response.error, null)
      const expected = values.flatMap((value, index) => (value === 0 ? [] : [BigInt(index)]))
      assert.deepEqual([...(response.outputs[0]?.shape ?? [])], [1, expected.length])
      assert.deepEqual([...new BigInt64Array(Uint8Array.from(response.outputs[0]?.bytes ?? []).buffer)], expected)
    }
    await loaded.close()
  })

  test('an output that is a constant of the model is returned', async () => {
    const model: OnnxModel = {
      nodes: [{ op: 'Identity', inputs: ['INPUT'], outputs: ['OUTPUT'] }],
      inputs: [{ name: 'INPUT', type: 'FP32', shape: [2] }],
      outputs: [
        { name: 'OUTPUT', type: 'FP32', shape: [2] },
        { name: 'VERSION', type: 'FP32', shape: [1] },
      ],
      initializers: [{ name: 'VERSION', type: 'FP32', dims: [1], raw: floats(42) }],
    }
    const loaded = await harness().load(model)
    for (let i = 0; i < 4; i++) {
      const response = await loaded.infer([new Tensor('INPUT', 'FP32', [2], floats(1, 2))])
      assert.equal(response.error, null)
      assert.equal(Buffer.from(response.outputs[1]?.bytes ?? []).readFloatLE(0), 42)
    }
    await loaded.close()
  })

  test('several offloaded instances share one session and all answer', async () => {
    const loaded = await harness().load(loopModel(16), { parameters: offloaded })
    const instances = [loaded.instance]
    for (let i = 1; i < 4; i++) instances.push(await loaded.createInstance(i))
    const responses = await Promise.all(instances.map((instance, i) => inferOn(instance, loopInputs(50 + i, 16))))
    for (const response of responses) {
      assert.equal(response.error, null)
      assert.equal(Buffer.from(response.outputs[0]?.bytes ?? []).readFloatLE(4), 1)
      response.release()
    }
    await loaded.close()
  })

  test(
    'an optional input with a default may be left out',
    { skip: traits.canOverrideInitializers ? false : 'onnxruntime-node cannot replace initializers' },
    async () => {
      const model: OnnxModel = {
        irVersion: 8,
        nodes: [{ op: 'Add', inputs: ['INPUT', 'BIAS'], outputs: ['OUTPUT'] }],
        inputs: [
          { name: 'INPUT', type: 'FP32', shape: [2] },
          { name: 'BIAS', type: 'FP32', shape: [2] },
        ],
        outputs: [{ name: 'OUTPUT', type: 'FP32', shape: [2] }],
        initializers: [{ name: 'BIAS', type: 'FP32', dims: [2], raw: floats(10, 20) }],
      }
      const config = {
        input: [inputConfig('INPUT', 'TYPE_FP32', [2]), inputConfig('BIAS', 'TYPE_FP32', [2], true)],
        output: [outputConfig('OUTPUT', 'TYPE_FP32', [2])],
      }
      const loaded = await harness().load(model, { config })
      const input = new Tensor('INPUT', 'FP32', [2], floats(1, 2))
      const bias = new Tensor('BIAS', 'FP32', [2], floats(100, 200))
      for (let i = 0; i < 3; i++) {
        const without = await loaded.infer([input])
        const given = await loaded.infer([input, bias])
        assert.deepEqual([...new Float32Array(Uint8Array.from(without.outputs[0]?.bytes ?? []).buffer)], [11, 22])
        assert.deepEqual([...new Float32Array(Uint8Array.from(given.outputs[0]?.bytes ?? []).buffer)], [101, 202])
      }
      await loaded.close()
    },
  )

  test('a cancelled request is not run, and its neighbours in the batch are', async () => {
    const loaded = await harness().load(addSubModel())
    const { requestOf } = await import('../../../test/fixtures/onnx/onnx-harness.ts')
    const { Batch } = await import('../../model/batch.ts')
    const answers: string[] = []
    const gone = requestOf(addSubInputs(1, 1, 1), (response) => answers.push(response.error?.code ?? 'ok'))
    const waiting = requestOf(addSubInputs(1, 5, 1), (response) =>
      answers.push(String(int32Values(response.outputs[0])[0])),
    )
    gone.cancel()
    await new Promise<void>((resolve) => loaded.instance.execute(new Batch([gone, waiting], 2, resolve)))
    assert.deepEqual(answers, ['CANCELLED', '6'])
    await loaded.close()
  })
}

export const loopInputs = (trips: number, size: number): Tensor[] => {
  const identity = new Float32Array(size * size)
  identity[1] = 1
  return [
    new Tensor('TRIPS', 'INT64', [1], int64s(trips)),
    new Tensor('INPUT', 'FP32', [size, size], new Uint8Array(identity.buffer)),
  ]
}

function typeTests(harness: () => OnnxHarness, traits: BindingTraits): void {
  for (const type of traits.types.filter((each) => each !== 'BYTES')) {
    test(`${type} tensors of any size go through bit for bit`, async () => {
      const loaded = await harness().load(identityModel(type, ['n', 'm']), { config: { maxBatchSize: 0 } })
      for (const elements of [1, 3, 3, 3, 5000, 5000, 5000]) {
        const bytes = Buffer.alloc(elements * elementBytes[type])
        for (let i = 0; i < bytes.length; i++) bytes[i] = type === 'BOOL' ? i & 1 : (i * 37 + 11) & 0x3f
        const response = await loaded.infer([new Tensor('INPUT', type, [1, elements], bytes)])
        assert.equal(response.error, null)
        assert.equal(response.outputs[0]?.dataType, type)
        assert.ok(bytes.equals(response.outputs[0]?.bytes ?? Buffer.alloc(0)))
        response.release()
      }
      await loaded.close()
    })
  }

  test('strings go through, empty ones and many of them', async () => {
    const loaded = await harness().load(identityModel('BYTES', [null]), { config: { maxBatchSize: 0 } })
    const lists = [['a'], ['', 'zwölf', ''], [], Array.from({ length: 3000 }, (_, i) => 'x'.repeat(i % 50) + i)]
    for (const texts of lists) {
      const bytes = framed(...texts)
      const response = await loaded.infer([new Tensor('INPUT', 'BYTES', [texts.length], bytes)])
      assert.equal(response.error, null)
      assert.deepEqual([...(response.outputs[0]?.shape ?? [])], [texts.length])
      assert.ok(Buffer.from(bytes).equals(response.outputs[0]?.bytes ?? Buffer.alloc(0)))
    }
    await loaded.close()
  })

  test(
    'strings may hold any bytes, zeros too',
    { skip: traits.carriesAnyBytesInStrings ? false : 'onnxruntime-node reads UTF-8' },
    async () => {
      const loaded = await harness().load(identityModel('BYTES', [null]), { config: { maxBatchSize: 0 } })
      const bytes = framed(Uint8Array.of(0, 1, 0), 'plain', Uint8Array.of(0xff, 0xfe), Uint8Array.of(0))
      const response = await loaded.infer([new Tensor('INPUT', 'BYTES', [4], bytes)])
      assert.ok(Buffer.from(bytes).equals(response.outputs[0]?.bytes ?? Buffer.alloc(0)))
      await loaded.close()
    },
  )

  test('strings whose lengths do not add up are refused', async () => {
    const loaded = await harness().load(identityModel('BYTES', [null]), { config: { maxBatchSize: 0 } })
    const good = framed('one', 'two')
    for (const [count, bytes] of [
      [3, good],
      [1, good],
      [2, good.subarray(0, 12)],
      [1e9, good],
      [2, Buffer.alloc(0)],
    ] as const) {
      const response = await loaded.infer([new Tensor('INPUT', 'BYTES', [count], bytes)])
      assert.notEqual(response.error, null, `${count} strings`)
    }
    assert.equal((await loaded.infer([new Tensor('INPUT', 'BYTES', [2], good)])).error, null)
    await loaded.close()
  })

  test('a tensor without elements goes in and comes out', async () => {
    const loaded = await harness().load(addSubModel('batch', 'INT32', 'length'))
    for (let i = 0; i < 3; i++) {
      const response = await loaded.infer(addSubInputs(2, 1, 1, 0))
      assert.equal(response.error, null)
      assert.deepEqual([...(response.outputs[0]?.shape ?? [])], [2, 0])
      assert.equal(response.outputs[0]?.bytes.byteLength, 0)
    }
    await loaded.close()
  })

  test('a scalar of a model that does not batch is one element to clients, and runs with rank 0', async () => {
    const loaded = await harness().load(identityModel('FP32', []), { config: { maxBatchSize: 0 } })
    assert.deepEqual(
      loaded.config.input.map(({ dims, reshape }) => [dims, reshape]),
      [[[1], null]],
    )
    for (let i = 0; i < 3; i++) {
      const response = await loaded.infer([new Tensor('INPUT', 'FP32', [1], floats(2.5))])
      assert.equal(response.error, null)
      assert.deepEqual([...(response.outputs[0]?.shape ?? [0])], [1])
      assert.equal(Buffer.from(response.outputs[0]?.bytes ?? []).readFloatLE(0), 2.5)
    }
    await loaded.close()
  })
}

function loadingTests(harness: () => OnnxHarness): void {
  const externalModel = (location: string): OnnxModel => ({
    nodes: [{ op: 'Add', inputs: ['INPUT', 'W'], outputs: ['OUTPUT'] }],
    inputs: [{ name: 'INPUT', type: 'FP32', shape: [4] }],
    outputs: [{ name: 'OUTPUT', type: 'FP32', shape: [4] }],
    initializers: [{ name: 'W', type: 'FP32', dims: [4], external: { location, offset: 0, length: 16 } }],
  })

  test('weights in an external file beside the model are found', async () => {
    const loaded = await harness().load(externalModel('weights.bin'), { files: { 'weights.bin': floats(1, 2, 3, 4) } })
    const response = await loaded.infer([new Tensor('INPUT', 'FP32', [4], floats(10, 10, 10, 10))])
    assert.deepEqual([...new Float32Array(Uint8Array.from(response.outputs[0]?.bytes ?? []).buffer)], [11, 12, 13, 14])
    await loaded.close()
  })

  test('a missing external file is named, with what to do', async () => {
    await assert.rejects(
      harness().load(externalModel('lost.bin')),
      /failed to load '.*model\.onnx'.*'lost\.bin'.*beside the model/s,
    )
  })

  test('a folder called model.onnx with a model.onnx in it is a model', async () => {
    const loaded = await harness().load(addSubModel(), { modelFile: 'model.onnx/model.onnx' })
    assert.equal((await loaded.infer(addSubInputs(1, 1, 1))).error, null)
    await loaded.close()
  })

  test('a model file that is not there is UNAVAILABLE, with its path', async () => {
    const name = 'absent'
    await assert.rejects(harness().load(addSubModel(), { name, modelFile: '' }), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'UNAVAILABLE')
      assert.match(error.message, /^unable to find '.*absent\/1\/model\.onnx' for model instance 'absent'$/)
      return true
    })
  })

  test('a file name that leaves the version folder is refused', async () => {
    await assert.rejects(
      harness().load(addSubModel(), { config: { defaultModelFilename: '../../other/1/model.onnx' } }),
      /default_model_filename .* must name a file inside the version folder/,
    )
  })

  test('an instance on a GPU is refused with Triton’s text', async () => {
    const loaded = await harness().load(addSubModel(), { name: 'wanting' })
    const spec = {
      name: 'wanting_0',
      kind: 'KIND_GPU',
      deviceId: 0,
      index: 0,
      onReadinessChange: () => undefined,
    } as const
    await assert.rejects(loaded.model.createInstance(spec), {
      code: 'INVALID_ARG',
      message: /^instance group wanting_0 of model wanting has kind KIND_GPU but server does not support GPUs: /,
    })
    await loaded.close()
  })

  test('a file that is no ONNX model is refused with its name and what to do', async () => {
    for (const bytes of [
      Buffer.from('version https://git-lfs.github.com/spec/v1\n'),
      Buffer.alloc(1000, 0xff),
      Buffer.alloc(0),
    ]) {
      await assert.rejects(harness().load(bytes), /failed to load '.*model\.onnx': it is not a whole ONNX file/)
    }
  })

  test('a locale that this machine does not have is named, with how skl2onnx leaves it out', async () => {
    const model: OnnxModel = {
      nodes: [
        {
          op: 'StringNormalizer',
          inputs: ['INPUT'],
          outputs: ['OUTPUT'],
          attributes: [
            { name: 'case_change_action', string: 'LOWER' },
            { name: 'locale', string: 'xx_XX.UTF-8' },
          ],
        },
      ],
      inputs: [{ name: 'INPUT', type: 'BYTES', shape: [null] }],
      outputs: [{ name: 'OUTPUT', type: 'BYTES', shape: [null] }],
    }
    await assert.rejects(
      harness().load(model),
      /failed to load '.*model\.onnx': its StringNormalizer wants the locale xx_XX\.UTF-8.*skl2onnx.*'locale': 'C'/,
    )
  })

  test('an operator set newer than the library is refused in words', async () => {
    await assert.rejects(harness().load({ ...addSubModel(), opset: 99 }), /export it with opset_version=\d+ or lower/)
  })

  test('an operator that nobody knows is named', async () => {
    const model: OnnxModel = {
      nodes: [{ op: 'Magic', domain: 'com.example', inputs: ['INPUT'], outputs: ['OUTPUT'] }],
      extraOpsets: [{ domain: 'com.example', version: 1 }],
      inputs: [{ name: 'INPUT', type: 'FP32', shape: [1] }],
      outputs: [{ name: 'OUTPUT', type: 'FP32', shape: [1] }],
    }
    await assert.rejects(harness().load(model), /needs the operator .*Magic.*op_library_filename/s)
  })

  test('a configuration that does not fit the model is refused with Triton’s text', async () => {
    const config = {
      ...emptyModelConfig(),
      input: [inputConfig('INPUT0', 'TYPE_FP32', [16]), inputConfig('INPUT1', 'TYPE_INT32', [16])],
      output: [outputConfig('OUTPUT0', 'TYPE_INT32', [16])],
      maxBatchSize: 8,
    }
    const name = 'misfit'
    await assert.rejects(harness().load(addSubModel(), { name, config: { ...config, name } }), {
      code: 'INVALID_ARG',
      message:
        "unable to load model 'misfit', configuration expects datatype TYPE_FP32 for input 'INPUT0', model provides TYPE_INT32",
    })
  })

  test('a model without a configuration gets one from its file', async () => {
    const { config, ...loaded } = await harness().load(addSubModel())
    assert.equal(config.maxBatchSize, 4)
    assert.notEqual(config.dynamicBatching, null)
    assert.deepEqual(
      config.input.map(({ name, dataType, dims }) => [name, dataType, dims]),
      [
        ['INPUT0', 'TYPE_INT32', [16]],
        ['INPUT1', 'TYPE_INT32', [16]],
      ],
    )
    assert.deepEqual(
      config.output.map(({ name, dataType, dims }) => [name, dataType, dims]),
      [
        ['OUTPUT0', 'TYPE_INT32', [16]],
        ['OUTPUT1', 'TYPE_INT32', [16]],
      ],
    )
    await loaded.instance.close()
    await loaded.model.close()
  })

  test('parameters that are not known are ignored with a warning that names them', async () => {
    const loaded = await harness().load(addSubModel(), { parameters: { colour: 'blue', intra_op_thread_count: '1' } })
    const warnings = harness()
      .log.entries.filter((entry) => entry.level === 'warning')
      .map((entry) => entry.message)
    assert.deepEqual(warnings.filter((line) => line.includes("'colour'")).length, 1)
    assert.deepEqual(warnings.filter((line) => line.includes('intra_op')).length, 0)
    await loaded.close()
  })
}

// What both clients of the SDK must do against both servers.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  createGrpcClient,
  createHttpClient,
  createSharedMemoryRegion,
  InferenceError,
  type GrpcClient,
  type HttpClient,
  type InferenceClient,
  type TensorData,
} from '../../src/client/node.ts'
import type { DataType } from '../../src/tensor/data-type.ts'
import { codeFile, sdkModels } from './sdk-repository.ts'

export type SdkServer = {
  readonly http: string
  readonly grpc: string
  readonly language: 'typescript' | 'python'
}

const samples: Readonly<Record<DataType, TensorData>> = {
  BOOL: [true, false, true],
  UINT8: Uint8Array.of(0, 255),
  UINT16: Uint16Array.of(0, 65_535),
  UINT32: Uint32Array.of(0, 4_294_967_295),
  UINT64: BigUint64Array.of(0n, 2n ** 64n - 1n),
  INT8: Int8Array.of(-128, 127),
  INT16: Int16Array.of(-32_768, 32_767),
  INT32: Int32Array.of(-(2 ** 31), 2 ** 31 - 1),
  INT64: BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n),
  FP16: [0.5, -2, 65_504],
  FP32: Float32Array.of(0.1, NaN, -Infinity),
  FP64: Float64Array.of(Math.PI, -0),
  BYTES: ['', 'plain', 'quo"ted\n', 'ünïcödé'],
  BF16: [1, -3.140625],
}
const typesOfJson = (Object.keys(samples) as DataType[]).filter((type) => type !== 'FP16' && type !== 'BF16')

const inputsOf = (types: readonly DataType[]): Record<string, { data: TensorData; dataType: DataType }> =>
  Object.fromEntries(types.map((dataType) => [`IN_${dataType}`, { data: samples[dataType], dataType }]))

async function checkEcho(client: InferenceClient, types: readonly DataType[], options: object): Promise<void> {
  const result = await client.infer('echo', inputsOf(types), options)
  assert.equal(result.outputs.length, types.length)
  for (const dataType of types) {
    const output = result.output(`OUT_${dataType}`)
    assert.equal(output.dataType, dataType)
    const sent = samples[dataType]
    assert.deepEqual(output.shape, [sent.length])
    if (dataType === 'BYTES') assert.deepEqual(output.strings(), sent)
    else if (dataType === 'BOOL') assert.deepEqual(output.booleans(), sent)
    else if (dataType === 'FP16' || dataType === 'BF16') assert.deepEqual([...output.float32()], sent)
    else assert.deepEqual(output.data, sent)
  }
}

const errorOf = async (call: Promise<unknown>): Promise<InferenceError> => {
  const reason = await call.then(
    () => assert.fail('expected an error'),
    (caught: unknown) => caught,
  )
  assert.ok(reason instanceof InferenceError, String(reason))
  return reason
}

/** What the model `inspect` saw of a request. */
type Seen = {
  readonly id: string
  readonly sequence: string
  readonly start: boolean
  readonly end: boolean
  readonly timeout: number
  readonly parameters: object
}
const seenIn = (result: { output(name: string): { strings(): string[] } }): Seen =>
  JSON.parse(result.output('SEEN').strings()[0] ?? '') as Seen

/** The tests that HTTP and gRPC share. `serverOf` is asked inside of each test, when the server runs. */
export function testInferenceClient(
  protocol: 'HTTP' | 'gRPC',
  clientOf: () => InferenceClient,
  serverOf: () => SdkServer,
): void {
  test(`${protocol}: health and metadata`, async () => {
    const client = clientOf()
    assert.equal(await client.isLive(), true)
    assert.equal(await client.isReady(), true)
    assert.equal(await client.isModelReady('echo'), true)
    assert.equal(await client.isModelReady('echo', { version: 1 }), true)
    assert.equal(await client.isModelReady('no_such_model'), false)
    assert.ok((await client.serverMetadata()).extensions.includes('binary_tensor_data'))
    const { name, versions, inputs, outputs } = await client.modelMetadata('labelled')
    assert.deepEqual([name, versions], ['labelled', ['1']])
    assert.deepEqual(inputs, [{ name: 'SCORES', dataType: 'FP32', shape: [-1, 4] }])
    assert.deepEqual(outputs, [{ name: 'CLASSES', dataType: 'FP32', shape: [-1, 4] }])
    const config = await client.modelConfig('labelled')
    assert.equal(config.max_batch_size, 4)
    assert.deepEqual(config.input[0]?.dims, [4])
    assert.equal(config.output[0]?.['label_filename'], 'labels.txt')
  })

  test(`${protocol}: every type goes and comes back`, () =>
    checkEcho(clientOf(), Object.keys(samples) as DataType[], {}))

  for (const compression of ['gzip', 'deflate'] as const) {
    test(`${protocol}: every type, packed with ${compression}`, () =>
      checkEcho(clientOf(), Object.keys(samples) as DataType[], { compression }))
  }

  test(`${protocol}: outputs that are asked for, and no others`, async () => {
    const result = await clientOf().infer('inspect', { X: Int32Array.of(0) }, { outputs: ['ECHO'] })
    assert.deepEqual(
      result.outputs.map(({ name }) => name),
      ['ECHO'],
    )
    assert.throws(() => result.output('SEEN'), /no output 'SEEN' in the answer of 'inspect'; it has 'ECHO'/)
  })

  test(`${protocol}: id, parameters and queue timeout reach the model`, async () => {
    const parameters = { text: 'x', flag: true, whole: 3, part: 1.5 }
    const options = { id: 'r-1', parameters, priority: 1, queueTimeoutUs: 5_000_000 }
    const result = await clientOf().infer('inspect', { X: Int32Array.of(0) }, options)
    assert.equal(result.id, 'r-1')
    const seen = seenIn(result)
    assert.deepEqual([seen.id, seen.timeout, seen.parameters], ['r-1', 5_000_000, parameters])
  })

  test(`${protocol}: a sequence marks its first and its last request`, async () => {
    const sequence = clientOf().sequence('inspect')
    const input = { X: Int32Array.of(0) }
    const seen = [await sequence.infer(input), await sequence.infer(input), await sequence.end(input)].map(seenIn)
    assert.deepEqual(
      seen.map(({ sequence: id, start, end }) => [id, start, end]),
      [
        [String(sequence.id), true, false],
        [String(sequence.id), false, false],
        [String(sequence.id), false, true],
      ],
    )
    const named = await clientOf().sequence('inspect', { id: 'by-name' }).end(input)
    assert.deepEqual([seenIn(named).sequence, seenIn(named).start, seenIn(named).end], ['by-name', true, true])
  })

  test(`${protocol}: classification`, async () => {
    const scores = { data: Float32Array.of(0.1, 0.7, 0.2, 0.5, 1, 2, 3, 4), shape: [2, 4] }
    const outputs = [{ name: 'CLASSES', classification: 2 }]
    const result = await clientOf().infer('labelled', { SCORES: scores }, { outputs })
    const classes = result.output('CLASSES').classes()
    assert.deepEqual(
      classes.map((row) => row.map(({ index, label }) => [index, label])),
      [
        [
          [1, 'dog'],
          [3, null],
        ],
        [
          [3, null],
          [2, 'bird'],
        ],
      ],
    )
  })

  test(`${protocol}: errors have a code, a status and the server's words`, async () => {
    const client = clientOf()
    const unknown = await errorOf(client.infer('no_such_model', {}))
    assert.deepEqual([unknown.code, unknown.status], ['NOT_FOUND', protocol === 'HTTP' ? 404 : 5])
    assert.equal(unknown.message, "Request for unknown model: 'no_such_model' is not found")
    const wrong = await errorOf(client.infer('inspect', { X: Float32Array.of(1) }))
    assert.deepEqual([wrong.code, wrong.status], ['INVALID_ARG', protocol === 'HTTP' ? 400 : 3])
    assert.match(wrong.message, /data-type is 'FP32', but model 'inspect' expects 'INT32'/)
    assert.match((await errorOf(client.infer('inspect', { X: Int32Array.of(-5) }))).message, /negative: -5/)
    // A mistake of the client here, and not supported in Triton.
    const { code } = await errorOf(client.infer('repeat', { COUNT: Int32Array.of(1) }))
    assert.match(code, /^(INVALID_ARG|UNSUPPORTED)$/)
  })

  test(`${protocol}: a call ends at its timeout and at its signal`, async () => {
    const client = clientOf()
    const slow = { X: Int32Array.of(1000) }
    assert.equal((await errorOf(client.infer('inspect', slow, { timeoutMs: 20 }))).code, 'TIMEOUT')
    const controller = new AbortController()
    const call = client.infer('inspect', slow, { signal: controller.signal })
    const reason = new Error('changed my mind')
    setImmediate(() => controller.abort(reason))
    await assert.rejects(call, reason)
  })

  test(`${protocol}: statistics count`, async () => {
    const client = clientOf()
    const successes = async (): Promise<number> => {
      const [found] = await client.statistics('echo')
      assert.equal(found?.name, 'echo')
      return found.inferenceStats.success.count
    }
    const before = await successes()
    await client.infer('echo', { IN_INT8: Int8Array.of(1) })
    assert.equal(await successes(), before + 1)
    assert.ok((await client.statistics()).length >= Object.keys(sdkModels).length)
  })

  test(`${protocol}: models are unloaded, loaded, and loaded from files that come with the call`, async () => {
    const client = clientOf()
    const { language } = serverOf()
    await client.unloadModel('labelled')
    assert.equal(await client.isModelReady('labelled'), false)
    const index = await client.repositoryIndex()
    // Triton answers before the last instance is gone.
    assert.match(index.find(({ name }) => name === 'labelled')?.state ?? '', /^(UNLOADING|UNAVAILABLE)$/)
    assert.ok((await client.repositoryIndex({ ready: true })).every(({ state }) => state === 'READY'))
    await client.loadModel('labelled')
    assert.equal(await client.isModelReady('labelled'), true)
    const name = `uploaded_${protocol.toLowerCase()}`
    const tensor = (direction: string): object => ({ name: `${direction}_INT8`, data_type: 'TYPE_INT8', dims: [-1] })
    const config = { backend: language, input: [tensor('IN')], output: [tensor('OUT')] }
    await client.loadModel(name, {
      config,
      files: { [codeFile(language)]: Buffer.from(sdkModels.echo.code[language]) },
    })
    const { outputs } = await client.infer(name, { IN_INT8: Int8Array.of(4, 5) })
    assert.deepEqual(outputs[0]?.numbers(), [4, 5])
    await client.unloadModel(name)
    // Triton is not ready while a model is on its way out.
    for (let asked = 0; asked < 10_000 && !(await client.isReady()); asked++);
    assert.match((await errorOf(client.loadModel('no_such_model'))).message, /no_such_model/)
  })

  test(`${protocol}: settings of traces and logs are read and changed`, async () => {
    const client = clientOf()
    assert.deepEqual((await client.traceSettings())['trace_level'], ['OFF'])
    assert.equal((await client.updateTraceSettings({ trace_rate: '7' }, 'echo'))['trace_rate'], '7')
    assert.equal((await client.traceSettings('echo'))['trace_rate'], '7')
    assert.notEqual((await client.updateTraceSettings({ trace_rate: null }, 'echo'))['trace_rate'], '7')
    assert.equal((await client.logSettings())['log_error'], true)
    assert.equal((await client.updateLogSettings({ log_warning: false }))['log_warning'], false)
    assert.equal((await client.updateLogSettings({ log_warning: true }))['log_warning'], true)
  })

  test(`${protocol}: tensors go through shared memory`, async () => {
    const client = clientOf()
    await using region = await createSharedMemoryRegion({ byteSize: 4096 })
    await region.register(client)
    const [found] = await client.systemSharedMemory(region.name)
    assert.deepEqual(found, { name: region.name, key: region.key, offset: 0, byteSize: 4096 })
    const X = await region.write(Int32Array.of(0, 6, 7))
    const room = region.reserve(12)
    const outputs = [{ name: 'ECHO', sharedMemory: room }]
    const result = await client.infer('inspect', { X }, { outputs })
    assert.equal(result.output('ECHO').bytes.length, 0)
    assert.deepEqual((await region.read(result.output('ECHO'), room)).numbers(), [0, 6, 7])
    await client.unregisterSystemSharedMemory(region.name)
    assert.equal((await errorOf(client.systemSharedMemory(region.name))).code, 'NOT_FOUND')
    assert.deepEqual(await client.cudaSharedMemory(), [])
  })
}

export function testHttpClient(serverOf: () => SdkServer): void {
  const clientOf = (): HttpClient => createHttpClient({ url: serverOf().http })
  testInferenceClient('HTTP', clientOf, serverOf)

  test('HTTP: every type that JSON has goes and comes back as JSON', () =>
    checkEcho(clientOf(), typesOfJson, { encoding: 'json' }))

  test('HTTP: generate answers once, generate_stream as often as the model does', async () => {
    const client = clientOf()
    const answer = await client.generate('inspect', { X: [0, 3], note: 'hello' })
    assert.deepEqual(answer['ECHO'], [0, 3])
    const events = await Array.fromAsync(client.generateStream('repeat', { COUNT: 3 }))
    assert.deepEqual(
      events.map(({ INDEX, TEXT }) => [INDEX, TEXT]),
      [
        [0, 'piece 0'],
        [1, 'piece 1'],
        [2, 'piece 2'],
      ],
    )
    for await (const event of client.generateStream('repeat', { COUNT: 100 })) {
      assert.equal(event['INDEX'], 0)
      break
    }
    assert.match((await errorOf(client.generate('inspect', { X: [-1] }))).message, /negative: -1/)
    assert.match((await errorOf(client.generate('repeat', { COUNT: 2 }))).message, /exactly (one|1 response)/)
    const stream = client.generateStream('no_such_model', {})
    assert.equal((await errorOf(stream.next())).code, 'NOT_FOUND')
  })
}

export function testGrpcClient(serverOf: () => SdkServer): void {
  let shared: GrpcClient | null = null
  // One connection for all of them, as a service would have it; an idle one does not keep the process.
  const clientOf = (): GrpcClient => (shared ??= createGrpcClient({ url: serverOf().grpc }))
  testInferenceClient('gRPC', clientOf, serverOf)

  test('gRPC: all answers of a decoupled model', async () => {
    const client = clientOf()
    const results = await Array.fromAsync(client.inferStream('repeat', { COUNT: Int32Array.of(4) }, { id: 'r' }))
    assert.deepEqual(
      results.map((result) => [result.id, ...result.output('INDEX').numbers(), ...result.output('TEXT').strings()]),
      [0, 1, 2, 3].map((i) => ['r', i, `piece ${i}`]),
    )
    assert.deepEqual(await Array.fromAsync(client.inferStream('repeat', { COUNT: Int32Array.of(0) })), [])
    for await (const result of client.inferStream('repeat', { COUNT: Int32Array.of(1000) })) {
      assert.deepEqual(result.output('INDEX').numbers(), [0])
      break
    }
    const broken = client.inferStream('no_such_model', {})
    assert.match((await errorOf(broken.next())).message, /'no_such_model' is not found/)
  })

  test('gRPC: many requests on one stream; an error is about one of them', async () => {
    await using stream = await clientOf().openStream()
    for (let i = 0; i < 20; i++)
      await stream.send('inspect', { X: Int32Array.of(i === 7 ? -1 : 0, i) }, { id: `n${i}` })
    await stream.end()
    const answers = await Array.fromAsync(stream)
    assert.deepEqual(
      answers.map(({ id }) => id),
      Array.from({ length: 20 }, (_, i) => `n${i}`),
    )
    for (const [i, { result, error }] of answers.entries()) {
      if (i === 7) assert.match(error?.message ?? '', /negative/)
      else assert.deepEqual(result?.output('ECHO').numbers(), [0, i])
    }
    await assert.rejects(stream.send('inspect', { X: Int32Array.of(0) }), /the stream was ended/)
  })

  test('gRPC: a stream ends at its signal', async () => {
    const controller = new AbortController()
    const stream = await clientOf().openStream({ signal: controller.signal })
    await stream.send('inspect', { X: Int32Array.of(1000) })
    const reason = new Error('enough')
    setImmediate(() => controller.abort(reason))
    await assert.rejects(Array.fromAsync(stream), reason)
  })

  test('gRPC: sixteen calls at once share the connection', async () => {
    const calls = Array.from({ length: 16 }, (_, i) => clientOf().infer('inspect', { X: Int32Array.of(0, i) }))
    const results = await Promise.all(calls)
    assert.deepEqual(
      results.map((result) => result.output('ECHO').numbers()[1]),
      Array.from({ length: 16 }, (_, i) => i),
    )
  })

  test('gRPC: a large tensor goes and comes back', async () => {
    const data = new Float32Array(1_000_000).map((_, i) => i)
    const result = await clientOf().infer('echo', { IN_FP32: data })
    assert.ok(Buffer.from(data.buffer).equals(result.output('OUT_FP32').bytes))
  })

  test('gRPC: a closed client refuses calls', async () => {
    const client = createGrpcClient({ url: serverOf().grpc })
    assert.equal(await client.isLive(), true)
    await client.close()
    await client.close()
    assert.equal((await errorOf(client.serverMetadata())).code, 'CANCELLED')
    await shared?.close()
  })
}

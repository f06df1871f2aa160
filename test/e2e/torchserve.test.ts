// TorchServe's API on its own ports, with archives that the real torch-model-archiver made. Each request of the cases was sent to the
// real TorchServe 0.12.0, and its answer is compared.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import * as grpc from '@grpc/grpc-js'
import protobuf from 'protobufjs'
import { runImport } from '../../src/cli/import-archive.ts'
import { parseProperties, torchserveFlagsOf } from '../../src/cli/torchserve.ts'
import { cases } from '../fixtures/torchserve/cases.ts'
import { sendCase, type Answer } from '../fixtures/torchserve/send-case.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { freePort } from '../free-port.ts'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'
import { testPython } from './python-checks.ts'

const fixtures = path.join(import.meta.dirname, '../fixtures/torchserve')
const store = path.join(fixtures, 'archives')

type Ports = Readonly<Record<'inference' | 'management' | 'metrics' | 'grpcInference' | 'grpcManagement', number>>

/** A server that nobody stops keeps the process of these tests alive. */
const servers: ServerProcess[] = []
after(() => Promise.all(servers.map((server) => server.stop())))

async function start(flags: readonly string[]): Promise<ServerProcess> {
  const server = await startServerProcess([...flags, `--backend-config=torchserve,interpreter=${testPython()}`])
  servers.push(server)
  return server
}

async function startTorchserve(...flags: string[]): Promise<Ports> {
  const server = await start([
    '--allow-torchserve',
    '--torchserve-inference-port=0',
    '--torchserve-management-port=0',
    '--torchserve-metrics-port=0',
    '--torchserve-grpc-inference-port=0',
    '--torchserve-grpc-management-port=0',
    `--torchserve-model-store=${store}`,
    ...flags,
  ])
  const portOf = (title: string): number => Number(server.furtherAddress(`TorchServe ${title}`).split(':').at(-1))
  return {
    inference: portOf('inference'),
    management: portOf('management'),
    metrics: portOf('metrics'),
    grpcInference: portOf('gRPC inference'),
    grpcManagement: portOf('gRPC management'),
  }
}

/** What differs from run to run. */
const blurred = (body: string): string =>
  body.replace(/\n *"(id|startTime|pid)": [^\n]*/g, '').replace(/"memoryUsage": \d+/, '"memoryUsage": 0')

const compared = ({ status, headers, body }: Answer): unknown => ({
  status,
  type: headers['content-type'] ?? null,
  isChunked: headers['transfer-encoding'] === 'chunked',
  cache: headers['cache-control'],
  own: headers['x-own'] ?? null,
  body: blurred(body),
})

describe('the answers of the real TorchServe', async () => {
  const recorded = JSON.parse(await readFile(path.join(fixtures, 'recorded.json'), 'utf8')) as Answer[]
  const ports = startTorchserve(
    '--torchserve-enable-model-api',
    '--torchserve-model=probe=probe.mar',
    '--torchserve-model=function=function.mar',
    '--torchserve-model=pieces=pieces.mar',
  )
  for (const [index, one] of cases.entries()) {
    test(one.name, async () => {
      const expected = recorded[index] as Answer
      assert.equal(expected.name, one.name)
      assert.deepEqual(compared(await sendCase(await ports, one)), compared(expected))
    })
  }
})

const { root } = protobuf.parse(readFileSync(path.join(fixtures, 'torchserve.proto'), 'utf8'), { keepCase: true })
const messageOf = (name: string): protobuf.Type => root.lookupType(`org.pytorch.serve.grpc.${name}`)
const unchanged = (bytes: Buffer): Buffer => bytes

/** A client of TorchServe's services by its names and field numbers: each answer, or the code and the text of the error. */
function torchserveClient(port: number, service: string, answerType: string) {
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure())
  const pathOf = (rpc: string): string => `/org.pytorch.serve.grpc.${service}/${rpc}`
  const encoded = (type: string, value: object): Buffer => Buffer.from(messageOf(type).encode(value).finish())
  const decoded = (bytes: Buffer): Record<string, unknown> => messageOf(answerType).decode(bytes) as never
  const call = (rpc: string, type: string, value: object, as = answerType): Promise<Record<string, unknown>> =>
    new Promise((resolve) => {
      client.makeUnaryRequest(pathOf(rpc), unchanged, unchanged, encoded(type, value), (error, bytes) => {
        if (error === null) resolve(messageOf(as).decode(bytes as Buffer) as never)
        else resolve({ code: grpc.status[error.code], details: error.details })
      })
    })
  const stream = async (rpc: string, type: string, value: object): Promise<string[]> => {
    const pieces: string[] = []
    const answers = client.makeServerStreamRequest(pathOf(rpc), unchanged, unchanged, encoded(type, value))
    for await (const bytes of answers) pieces.push(String(decoded(bytes as Buffer)['prediction']))
    return pieces
  }
  const talk = async (rpc: string, type: string, values: readonly object[]): Promise<Record<string, unknown>[]> => {
    const answers: Record<string, unknown>[] = []
    const stream = client.makeBidiStreamRequest(pathOf(rpc), unchanged, unchanged)
    for (const value of values) stream.write(encoded(type, value))
    stream.end()
    for await (const bytes of stream) answers.push(decoded(bytes as Buffer))
    return answers
  }
  return { call, stream, talk, close: () => client.close() }
}

test("TorchServe's gRPC services answer: predictions, pieces, and every change of models", async () => {
  const ports = await startTorchserve(
    '--torchserve-enable-model-api',
    '--torchserve-model=function=function.mar',
    '--torchserve-model=pieces=pieces.mar',
  )
  const inference = torchserveClient(ports.grpcInference, 'inference.InferenceAPIsService', 'PredictionResponse')
  const management = torchserveClient(ports.grpcManagement, 'management.ManagementAPIsService', 'ManagementResponse')
  const data = { data: Buffer.from('x') }
  try {
    const { health } = await inference.call('Ping', 'Empty', {}, 'TorchServeHealthResponse')
    assert.equal(health, '{\n  "status": "Healthy"\n}')
    const ask = (request: object): Promise<Record<string, unknown>> =>
      inference.call('Predictions', 'PredictionsRequest', { input: data, ...request })
    assert.equal(String((await ask({ model_name: 'function' }))['prediction']), 'function loaded 1')
    assert.equal(
      String((await ask({ model_name: 'function', model_version: '1.0' }))['prediction']),
      'function loaded 1',
    )
    assert.deepEqual(await ask({ model_name: 'other' }), {
      code: 'INTERNAL',
      details: 'Model not found: other\norg.pytorch.serve.archive.model.ModelNotFoundException',
    })
    assert.equal((await ask({}))['details'], 'Parameter model_name is required.\nBadRequestException.()')
    const pieces = await inference.stream('StreamPredictions', 'PredictionsRequest', {
      model_name: 'pieces',
      input: data,
    })
    assert.ok(pieces.length > 1, pieces.join())
    assert.equal((await ask({ model_name: 'pieces' }))['code'], 'INVALID_ARGUMENT')
    const asked = ['function', 'other', 'pieces', 'function'].map((name, i) => ({ model_name: name, input: data, sequence_id: `s${i}` })) // prettier-ignore
    const told = (await inference.talk('StreamPredictions2', 'PredictionsRequest', asked)).map((answer) => {
      const { code } = (answer['status'] ?? {}) as { code?: number }
      return [answer['sequence_id'], code === undefined ? String(answer['prediction']) : grpc.status[code]]
    })
    assert.deepEqual(told, [
      ['s0', 'function loaded 1'],
      ['s1', 'NOT_FOUND'],
      ...pieces.map((piece) => ['s2', piece]),
      ['s3', 'function loaded 1'],
    ])

    const msg = async (rpc: string, type: string, value: object): Promise<string> => {
      const answer = await management.call(rpc, type, value)
      return String(answer['msg'] ?? answer['details'])
    }
    // The archive says one worker, which counts more than the call.
    const registered = { url: 'probe.mar', initial_workers: 2, synchronous: true, model_name: 'again' }
    assert.match(
      await msg('RegisterModel', 'RegisterModelRequest', registered),
      /^Model "again" Version: \S+ registered with 1 initial workers$/,
    )
    assert.match(
      await msg('RegisterModel', 'RegisterModelRequest', {}),
      /^Parameter url is required\.\n.*BadRequestException$/,
    )
    assert.match(await msg('ListModels', 'ListModelsRequest', { limit: 1 }), /"nextPageToken": "1"/)
    const described = JSON.parse(await msg('DescribeModel', 'DescribeModelRequest', { model_name: 'again' })) as {
      modelName: string
      modelVersion: string
    }[]
    assert.equal(described[0]?.modelName, 'again')
    const scaled = { model_name: 'again', min_worker: 2, synchronous: true }
    assert.equal(await msg('ScaleWorker', 'ScaleWorkerRequest', scaled), 'Workers scaled to 2 for model: again')
    const version = described[0]?.modelVersion ?? ''
    const asDefault = { model_name: 'again', model_version: version }
    assert.equal(
      await msg('SetDefault', 'SetDefaultRequest', asDefault),
      `Default version successfully updated for model "again" to "${version}"`,
    )
    assert.equal(
      await msg('UnregisterModel', 'UnregisterModelRequest', { model_name: 'again' }),
      'Model "again" unregistered',
    )
    assert.match(
      await msg('DescribeModel', 'DescribeModelRequest', { model_name: 'again' }),
      /^Model not found: again\n.*ModelNotFoundException$/,
    )
  } finally {
    inference.close()
    management.close()
  }
})

const text = async (port: number, target: string, init: RequestInit = {}): Promise<string> =>
  (await fetch(`http://127.0.0.1:${port}${target}`, init)).text()

const torchserveFamilies = [
  'CPUUtilization',
  'DiskAvailable',
  'DiskUsage',
  'DiskUtilization',
  'HandlerTime',
  'MemoryAvailable',
  'MemoryUsed',
  'MemoryUtilization',
  'PredictionTime',
  'QueueTime',
  'Requests2XX',
  'Requests4XX',
  'Requests5XX',
  'WorkerLoadTime',
  'WorkerThreadTime',
  'ts_inference_latency_microseconds',
  'ts_inference_requests_total',
  'ts_queue_latency_microseconds',
]

test("any model answers, metrics have TorchServe's names, and without the flag nobody registers models", async () => {
  const ports = await startTorchserve(
    `--model-repository=${exampleModels}`,
    '--torchserve-model=all',
    '--exit-on-error=false',
  )
  const rows = Array.from({ length: 16 }, (_, index) => index)
  const sum = await text(ports.inference, '/predictions/simple', {
    method: 'POST',
    body: JSON.stringify({ instances: [{ INPUT0: rows, INPUT1: rows }] }),
  })
  assert.deepEqual((JSON.parse(sum) as { predictions: { OUTPUT0: number[] }[] }).predictions[0]?.OUTPUT0[15], 30)
  // KServe's paths lead to the same handler.
  for (const [target, explain] of [
    ['/v1/models/probe:predict', 'False'],
    ['/v2/models/probe/infer', 'False'],
    ['/v1/models/probe:explain', 'True'],
    ['/v2/models/probe/explain/', 'True'],
  ] as const) {
    const headers = { 'Content-Type': 'application/json' }
    const answer = await text(ports.inference, target, { method: 'POST', body: '{"instances": [1]}', headers })
    assert.equal((JSON.parse(answer) as { explain: string }).explain, explain, target)
  }
  assert.match(await text(ports.inference, '/v1/models/nobody:predict', { method: 'POST' }), /ModelNotFoundException/)
  const listed = JSON.parse(await text(ports.management, '/models')) as { models: { modelName: string }[] }
  for (const name of ['simple', 'probe', 'function', 'function_tgz', 'pieces']) {
    assert.ok(
      listed.models.some(({ modelName }) => modelName === name),
      name,
    )
  }
  assert.match(await text(ports.management, '/models?url=probe.mar', { method: 'POST' }), /MethodNotAllowedException/)
  await text(ports.inference, '/predictions/function', { method: 'POST', body: 'x' })
  const metrics = await text(ports.metrics, '/metrics')
  assert.match(
    metrics,
    /^ts_inference_requests_total\{model_name="function",model_version="1\.0",hostname="[^"]+",\} 1\.0$/m,
  )
  assert.match(metrics, /^Requests2XX\{Level="Host",Hostname="[^"]+",\} [1-9]/m)
  assert.match(metrics, /^PredictionTime\{ModelName="function",Level="Model",Hostname="[^"]+",\} [\d.]*[1-9]/m)
  assert.match(metrics, /^WorkerLoadTime\{WorkerName="W-9000-function_1\.0",Level="Host",Hostname="[^"]+",\} [1-9]/m)
  // All families that the real TorchServe 0.12.0 has on a machine without a GPU.
  const told = [...metrics.matchAll(/^# HELP (\S+) Torchserve prometheus (?:counter|gauge) metric with unit: \w+$/gm)]
  assert.deepEqual(told.map(([, name = '']) => name).sort(), torchserveFamilies)
  assert.doesNotMatch(await text(ports.metrics, '/metrics?name[]=Requests2XX'), /ts_inference/)
  const description = JSON.parse(await text(ports.inference, '/', { method: 'OPTIONS' })) as { openapi: string }
  assert.equal(description.openapi, '3.0.1')
  assert.match(
    await text(ports.management, '/models/probe', { method: 'OPTIONS' }),
    /"title": "RESTful Management API for: probe"[^]*"\/models\/\{model_name\}"/,
  )
  assert.match(await text(ports.management, '/models/nobody', { method: 'OPTIONS' }), /ModelNotFoundException/)
})

test('a form of more than 1000 fields, more than 1 MiB of urlencoded text, and forms that are none are refused', async () => {
  const ports = await startTorchserve('--torchserve-model=probe.mar')
  const send = (contentType: string, body: string): Promise<string> =>
    text(ports.inference, '/predictions/probe', { method: 'POST', body, headers: { 'Content-Type': contentType } })
  const urlencoded = 'application/x-www-form-urlencoded'
  assert.match(
    await send(urlencoded, Array.from({ length: 1001 }, (_, i) => `f${i}=1`).join('&')),
    /more than 1000 fields/,
  )
  assert.match(await send(urlencoded, `a=${'x'.repeat(1024 * 1024)}`), /more than 1048576 bytes/)
  assert.match(await send(urlencoded, 'a=%zz'), /not percent-encoded/)
  assert.match(await send('multipart/form-data', 'x'), /names no boundary/)
  assert.match(await send('multipart/form-data; boundary=b', 'x'), /no part/)
  assert.match(await send('multipart/form-data; boundary=b', '--b\r\nx: y\r\n\r\nabc'), /last boundary is missing/)
  const many = `${'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'.repeat(1001)}--b--\r\n`
  assert.match(await send('multipart/form-data; boundary=b', many), /more than 1000 fields/)
})

test('a name of a model in a form of /invocations has at most 4096 characters', async () => {
  const ports = await startTorchserve('--torchserve-model=probe.mar', '--torchserve-model=function.mar')
  const ask = (name: string): Promise<string> =>
    text(ports.inference, '/invocations', { method: 'POST', body: new URLSearchParams({ model_name: name }) })
  assert.equal(await ask('function'), 'function loaded 1')
  assert.match(await ask('x'.repeat(4096)), /Model not found: x/)
  assert.match(await ask('x'.repeat(4097)), /Parameter model_name has more than 4096 characters/)
  assert.match(await ask(''), /Parameter model_name is required/)
})

test('a handler that takes longer than its time is ended, and a queue that is full refuses', async () => {
  const ports = await startTorchserve(
    '--torchserve-model=slow.mar',
    '--torchserve-response-timeout-secs=1',
    '--torchserve-job-queue-size=1',
  )
  const ask = async (): Promise<{ code: number }> =>
    JSON.parse(await text(ports.inference, '/predictions/slow', { method: 'POST', body: 'x' })) as { code: number }
  const codes = (await Promise.all([ask(), ask(), ask(), ask(), ask(), ask()])).map(({ code }) => code)
  assert.ok(codes.includes(500), `the handler was ended: ${codes.join()}`)
  assert.ok(codes.includes(503), `the queue was full: ${codes.join()}`)
})

test('257 workers are refused, and so is a name that the repository has', async () => {
  const ports = await startTorchserve(
    `--model-repository=${exampleModels}`,
    '--torchserve-enable-model-api',
    '--torchserve-model=function.mar',
    '--torchserve-allowed-url=https://(a+)+b',
  )
  const manage = (method: string, target: string): Promise<string> => text(ports.management, target, { method })
  for (const count of ['257&synchronous=true', '257', '1000000000']) {
    assert.match(await manage('PUT', `/models/function?min_worker=${count}`), /at most 256 workers/)
  }
  assert.match(
    await manage('POST', '/models?url=function.mar&model_name=patient&initial_workers=1&response_timeout=2147483647'),
    /registered with 1 initial workers/,
  )
  assert.match(await manage('POST', '/models?url=function.mar&model_name=simple'), /ConflictStatusException/)
  assert.match(await manage('DELETE', '/models/simple'), /a model of the server's repository/)
  assert.match(await manage('POST', '/models?url=https://models.example/a.mar'), /does not match any allowed URL/)
  // A pattern that takes for ever where all ways through it are tried one after the other.
  assert.match(await manage('POST', `/models?url=https://${'a'.repeat(50)}c`), /does not match any allowed URL/)
  assert.match(
    await manage('POST', '/models?url=function.mar&model_name=none&initial_workers=-1'),
    /registered with 0 initial workers/,
  )
  const register = 'POST /models?url=function.mar&synchronous=true'
  const refused: readonly (readonly [string, string, RegExp])[] = [
    [`${register}&model_name=many&initial_workers=257`, 'BadRequestException', /at most 256 workers/],
    [`${register}&model_name=many&initial_workers=1000000000`, 'BadRequestException', /at most 256 workers/],
    [`${register}&model_name=..%2Fx`, 'BadRequestException', /Invalid model name: "\.\.\/x"/],
    [`${register}&model_name=..x`, 'BadRequestException', /Invalid model name/],
    [`${register}&model_name=${'x'.repeat(256)}`, 'BadRequestException', /Invalid model name/],
    [`${register}&model_name=j&runtime=java`, 'BadRequestException', /^Invalid RuntimeType value: java$/],
    [`POST /models?url=${'a'.repeat(300)}.mar`, 'ModelNotFoundException', /^Model not found at: a/],
    [`POST /models?url=${'a'.repeat(4097)}`, 'BadRequestException', /^Parameter url has more than 4096 characters/],
  ]
  for (const [request, type, message] of refused) {
    const [method = '', target = ''] = request.split(' ')
    const answer = JSON.parse(await manage(method, target)) as { code: number; type: string; message: string }
    assert.deepEqual([answer.code < 500, answer.type], [true, type], request)
    assert.match(answer.message, message)
  }
  assert.deepEqual(JSON.parse(await manage('GET', '/models?limit=0')), { nextPageToken: '0', models: [] })
  const broken = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"url":' }
  assert.match(await text(ports.management, '/models', broken), /"type": "BadRequestException"/)
  // A model that does not start leaves nothing behind that makes the server unhealthy.
  assert.match(
    await manage('POST', '/models?url=function.mar&model_name=odd&handler=absent&initial_workers=1'),
    /Failed to start workers/,
  )
  assert.match(await text(ports.inference, '/ping', {}), /"Healthy"/)
  // Every text but `true` is false.
  assert.match(
    await manage('POST', '/models?url=function.mar&model_name=late&initial_workers=1&synchronous=x'),
    /Processing worker updates/,
  )
})

test('a command line of TorchServe starts, and an imported archive is served for good', async () => {
  const { root, remove } = await temporaryRepository({
    'config.properties': `inference_address=http://127.0.0.1:0
management_address=http://127.0.0.1:0
metrics_address=http://127.0.0.1:0
grpc_inference_port=0
grpc_management_port=0
load_models=function.mar
`,
  })
  const output: string[] = []
  const io = { stdout: (line: string) => void output.push(line), stderr: (line: string) => void output.push(line) }
  const models = path.join(root, 'models')
  assert.equal(
    await runImport([path.join(store, 'function.mar'), `--model-repository=${models}`], io),
    0,
    output.join(''),
  )
  assert.equal(await runImport([path.join(store, 'function.mar'), `--model-repository=${models}`], io), 0)
  assert.equal(await runImport([path.join(store, 'absent.mar'), `--model-repository=${models}`], io), 1)
  assert.deepEqual((await readdir(path.join(models, 'function'))).sort(), ['1', '2', 'config.pbtxt'])
  const server = await start([`--model-repository=${models}`])
  const answer = await fetch(`${server.url}/v2/models/function/infer`, {
    method: 'POST',
    body: JSON.stringify({ inputs: [{ name: 'data', datatype: 'BYTES', shape: [1, 1], data: ['x'] }] }),
  })
  const { outputs } = (await answer.json()) as { outputs: { name: string; data: string[] }[] }
  assert.deepEqual(outputs.find(({ name }) => name === 'prediction')?.data, ['function loaded 1'])
  const { args: flags } = torchserveFlagsOf(['--start', '--model-store', store], {
    file: parseProperties(await readFile(path.join(root, 'config.properties'), 'utf8')),
    environment: {},
  })
  const own = flags.filter((flag) => !flag.startsWith('--allow-') || flag === '--allow-torchserve')
  const moved = await start(own)
  const address = moved.furtherAddress('TorchServe inference')
  assert.equal(await text(Number(address.split(':')[1]), '/predictions/function'), 'function loaded 1')
  await remove()
})

test("KServe's configuration starts: one port for predictions, models and metrics, and the models of a snapshot", async () => {
  const address = `http://127.0.0.1:${await freePort()}`
  const version = { defaultVersion: true, marName: 'function.mar', minWorkers: 2, maxWorkers: 5, batchSize: 5 }
  const { args } = torchserveFlagsOf(['--model-store', store], {
    file: {
      inference_address: address,
      management_address: address,
      metrics_address: address,
      grpc_inference_port: '0',
      grpc_management_port: '0',
      load_models: 'all',
      model_snapshot: JSON.stringify({ name: 'startup.cfg', modelCount: 1, models: { fn: { '1.0': version } } }),
    },
    environment: {},
  })
  const server = await start(args.filter((flag) => !flag.startsWith('--allow-') || flag === '--allow-torchserve'))
  const port = Number(server.furtherAddress('TorchServe inference').split(':')[1])
  assert.equal(await text(port, '/predictions/fn/1.0'), 'function loaded 1')
  assert.match(
    await text(port, '/models'),
    /"models": \[\s+\{\s+"modelName": "fn",\s+"modelUrl": "function.mar"\s+\}\s+\]/,
  )
  assert.match(await text(port, '/models/fn'), /"minWorkers": 2,\s+"maxWorkers": 5,\s+"batchSize": 5/)
  assert.match(await text(port, '/v1/models/fn'), /"ready": true/)
  assert.match(await text(port, '/metrics'), /ts_inference_requests_total\{model_name="fn"/)
  assert.match(await text(port, '/nowhere'), /ResourceNotFoundException/)
})

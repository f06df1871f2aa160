// Answers tell how loaded the server is: to whoever asks, always, or never. Read with gRPC's own client and the official message.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import * as grpc from '@grpc/grpc-js'
import protobuf from 'protobufjs'
import { SystemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { encodeMessage } from '../../src/protocol/grpc/message-codec.ts'
import { startServer, type RunningServer } from '../../src/server.ts'
import { optionsOf } from '../fixtures/options-of.ts'
import { until } from '../until.ts'
import { exampleModels } from './server-process.ts'

// xds/data/orca/v3/orca_load_report.proto and xds/service/orca/v3/orca.proto, as far as they are used here.
const { root } = protobuf.parse(`
  syntax = "proto3";
  message OrcaLoadReport {
    double cpu_utilization = 1; double mem_utilization = 2; double rps_fractional = 6; double eps = 7;
    map<string, double> named_metrics = 8; double application_utilization = 9;
  }
  message Dim { int64 size = 1; }
  message TensorShape { repeated Dim dim = 2; }
  message TensorProto { int32 dtype = 1; TensorShape tensor_shape = 2; bytes tensor_content = 4; }
  message ModelSpec { string name = 1; }
  message PredictRequest { ModelSpec model_spec = 1; map<string, TensorProto> inputs = 2; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
  message OrcaLoadReportRequest { Duration report_interval = 1; }`)
const Report = root.lookupType('OrcaLoadReport')
const Request = root.lookupType('OrcaLoadReportRequest')

type Report = { applicationUtilization: number; memUtilization: number; namedMetrics: Record<string, number> }
const decodeReport = (bytes: Uint8Array): Report => Report.decode(bytes) as unknown as Report

const start = (...flags: string[]): Promise<RunningServer> => {
  const ports = ['--http-port=0', '--grpc-port=0', '--metrics-port=0']
  const options = optionsOf([`--model-repository=${exampleModels}`, '--model-control-mode=explicit', '--load-model=simple', ...ports, ...flags]) // prettier-ignore
  return startServer(options, { clock: new SystemClock(), log: silentLog })
}

const input = (name: string): object => ({ name, shape: [1, 16], datatype: 'INT32', data: Array(16).fill(1) })
const body = JSON.stringify({ inputs: [input('INPUT0'), input('INPUT1')] })
const inferHttp = (server: RunningServer, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`http://127.0.0.1:${server.httpAddress?.port}/v2/models/simple/infer`, { method: 'POST', body, headers })

const raw = (bytes: Buffer): Buffer => bytes
const grpcInput = (name: string): object => ({ name, datatype: 'INT32', shape: [1n, 16n] })
const inferMessage = encodeMessage('ModelInferRequest', {
  modelName: 'simple',
  inputs: [grpcInput('INPUT0'), grpcInput('INPUT1')],
  rawInputContents: [Buffer.alloc(64), Buffer.alloc(64)],
})

/** The trailers of a ModelInfer. */
function inferGrpc(
  client: grpc.Client,
  headers: Record<string, string> = {},
  path = '/inference.GRPCInferenceService/ModelInfer',
  message = inferMessage,
): Promise<grpc.Metadata> {
  const metadata = new grpc.Metadata()
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
  return new Promise((resolve, reject) => {
    const call = client.makeUnaryRequest(path, raw, raw, message, metadata, (error) => error && reject(error))
    call.on('status', ({ metadata: trailers }) => resolve(trailers))
  })
}

let asked: RunningServer
let always: RunningServer
let off: RunningServer
const clients: grpc.Client[] = []
const clientOf = (server: RunningServer): grpc.Client => {
  const client = new grpc.Client(`127.0.0.1:${server.grpcAddress?.port}`, grpc.credentials.createInsecure())
  clients.push(client)
  return client
}

before(async () => {
  ;[asked, always, off] = await Promise.all([
    start(),
    start('--orca=always', '--allow-tfserving=true', '--tfserving-port=0'),
    start('--orca=off'),
  ])
})

after(async () => {
  for (const client of clients) client.close()
  await Promise.all([asked, always, off].map((server) => server.drain(1000)))
})

test('a request over HTTP that asks for the load gets it in the format that it names', async () => {
  assert.equal((await inferHttp(asked)).headers.get('endpoint-load-metrics'), null)
  const reported = async (format: string, name = 'endpoint-load-metrics'): Promise<string | null> => {
    const answer = await inferHttp(asked, { 'Endpoint-Load-Metrics-Format': format })
    assert.equal(answer.status, 200)
    return answer.headers.get(name)
  }
  await until(async () => (await reported('text')) !== null, 'a report')
  assert.match(
    (await reported('text')) ?? '',
    /^TEXT cpu_utilization=\S+, .*application_utilization=\S+, named_metrics/,
  )
  const json = JSON.parse((await reported('json'))?.replace(/^JSON /, '') ?? '') as { named_metrics: object }
  assert.deepEqual(Object.keys(json.named_metrics), ['queue', 'pressure.simple'])
  const bin = await reported('bin', 'endpoint-load-metrics-bin')
  const { memUtilization, namedMetrics } = decodeReport(Buffer.from(bin ?? '', 'base64'))
  assert.ok(memUtilization > 0 && memUtilization <= 1)
  assert.equal(namedMetrics['queue'], 0)
  assert.equal(await reported('xml'), null)
})

test('with --orca=always every answer tells the load, also over gRPC and of a stream', async () => {
  const client = clientOf(always)
  let trailers = await inferGrpc(client)
  await until(async () => (trailers = await inferGrpc(client)).get('endpoint-load-metrics-bin').length > 0, 'a report')
  const [bytes] = trailers.get('endpoint-load-metrics-bin')
  assert.ok(decodeReport(bytes as Buffer).applicationUtilization > 0)
  assert.match((await inferHttp(always)).headers.get('endpoint-load-metrics') ?? '', /^TEXT /)
  // TensorFlow Serving's Predict, and KServe's v1.
  const tensor = { dtype: 3, tensorShape: { dim: [{ size: 1 }, { size: 16 }] }, tensorContent: Buffer.alloc(64) }
  const predict = root.lookupType('PredictRequest')
  const asked = predict.encode(predict.fromObject({ modelSpec: { name: 'simple' }, inputs: { INPUT0: tensor, INPUT1: tensor } })).finish() // prettier-ignore
  const trailing = await inferGrpc(client, {}, '/tensorflow.serving.PredictionService/Predict', Buffer.from(asked))
  assert.equal(trailing.get('endpoint-load-metrics-bin').length, 1)
  const instances = [{ INPUT0: Array(16).fill(1), INPUT1: Array(16).fill(1) }]
  const v1 = await fetch(`http://127.0.0.1:${always.httpAddress?.port}/v1/models/simple:predict`, { method: 'POST', body: JSON.stringify({ instances }) }) // prettier-ignore
  assert.deepEqual([v1.status, v1.headers.get('endpoint-load-metrics')?.slice(0, 5)], [200, 'TEXT '])
  const stream = client.makeBidiStreamRequest('/inference.GRPCInferenceService/ModelStreamInfer', raw, raw)
  const ended = new Promise<grpc.Metadata>((resolve) => stream.on('status', ({ metadata }) => resolve(metadata)))
  stream.on('data', () => undefined)
  stream.write(inferMessage)
  stream.end()
  assert.equal((await ended).get('endpoint-load-metrics-bin').length, 1)
})

test('over gRPC the trailers have the load for who asks, and nothing for others', async () => {
  const client = clientOf(asked)
  assert.deepEqual((await inferGrpc(client)).get('endpoint-load-metrics-bin'), [])
  const askFor = async (): Promise<number> =>
    (await inferGrpc(client, { 'endpoint-load-metrics-format': 'bin' })).get('endpoint-load-metrics-bin').length
  await until(async () => (await askFor()) === 1, 'a report')
})

test('a balancer that keeps a stream open gets reports again and again', async () => {
  const client = clientOf(asked)
  const message = Buffer.from(Request.encode({ reportInterval: { nanos: 1 } }).finish())
  const path = '/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics'
  const reports: Report[] = []
  const call = client.makeServerStreamRequest(path, raw, (bytes: Buffer) => decodeReport(bytes), message)
  call.on('data', (report: Report) => void reports.push(report)).on('error', () => undefined)
  await until(() => reports.length >= 2, 'two reports')
  call.cancel()
  assert.ok(reports.every(({ applicationUtilization }) => applicationUtilization > 0))
  const bad = client.makeServerStreamRequest(path, raw, raw, Buffer.from([10, 200]))
  const code = await new Promise((resolve) => bad.on('error', ({ code }: grpc.ServiceError) => resolve(code)))
  assert.equal(code, grpc.status.INVALID_ARGUMENT)
})

test('of more than 256 streams of reports the later ones are refused', async () => {
  const client = clientOf(asked)
  const path = '/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics'
  const codes: number[] = []
  const calls = Array.from({ length: 257 }, () => client.makeServerStreamRequest(path, raw, raw, Buffer.alloc(0)))
  for (const call of calls) {
    call.on('data', () => undefined).on('error', ({ code }: grpc.ServiceError) => void codes.push(code))
  }
  await until(() => codes.length > 0, 'a refusal')
  assert.deepEqual(codes, [grpc.status.RESOURCE_EXHAUSTED])
  for (const call of calls) call.cancel()
})

test('with --orca=off nobody is told, and there is no service for it', async () => {
  const headers = { 'endpoint-load-metrics-format': 'json' }
  const answers = [await inferHttp(off, headers), await inferHttp(off, headers)]
  assert.ok(answers.every((answer) => answer.headers.get('endpoint-load-metrics') === null))
  const call = clientOf(off).makeServerStreamRequest('/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics', raw, raw, Buffer.alloc(0)) // prettier-ignore
  const code = await new Promise((resolve) => call.on('error', ({ code }: grpc.ServiceError) => resolve(code)))
  assert.equal(code, grpc.status.UNIMPLEMENTED)
})

test('metrics have the pressure from the second page on, and readiness says when the models have changed', async () => {
  const page = async (): Promise<string> =>
    (await fetch(`http://127.0.0.1:${asked.metricsAddress?.port}/metrics`)).text()
  await until(async () => (await page()).includes('galatea_pressure{'), 'pressure')
  assert.match(await page(), /galatea_pressure\{model="simple",version="1"\} [\d.e-]+\n/)
  assert.match(await page(), /\ngalatea_server_pressure [\d.e-]+\n/)
  assert.match(await page(), /galatea_requests_running\{model="simple",version="1"\} 0\n/)
  assert.match(await page(), /galatea_requests_waiting\{model="simple",version="1"\} 0\n/)
  const models = async (): Promise<string | null> =>
    (await fetch(`http://127.0.0.1:${asked.httpAddress?.port}/v2/health/ready`)).headers.get('galatea-models')
  const first = await models()
  assert.match(first ?? '', /^[0-9a-f]{16}$/)
  assert.equal(await models(), first)
  await asked.engine.load('digits')
  assert.notEqual(await models(), first)
})

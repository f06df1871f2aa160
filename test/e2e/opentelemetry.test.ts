// Traces arrive at a receiver built on OpenTelemetry's own messages, whole and under the right parents.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createGrpcClient } from '../../src/client/node.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { attributesOf, OtlpReceiver, type ReceivedSpan } from './otlp-receiver.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const tensors = `
max_batch_size: 0
input [{ name: "IN" data_type: TYPE_STRING dims: [1] }]
output [{ name: "OUT" data_type: TYPE_STRING dims: [1] }]
`

const step = (model: string, from: string, to: string): string =>
  `{ model_name: "${model}" model_version: -1 input_map { key: "IN" value: "${from}" } output_map { key: "OUT" value: "${to}" } }`

/** An ensemble of a model in TypeScript and one in Python, which calls the first one, once for the trace and once not. */
const repositoryFiles = {
  'tells/1/model.ts': `
import { fromStrings } from 'galatea/model'
export const config = {
  input: [{ name: 'IN', dataType: 'BYTES', dims: [1] }],
  output: [{ name: 'OUT', dataType: 'BYTES', dims: [1] }],
}
export function infer(request) {
  const said = request.input('IN').asStrings()[0]
  if (said === 'fail') throw new Error('as told')
  return [fromStrings('OUT', [1], [said + '|' + request.traceparent + '|' + request.tracestate])]
}
`,
  'calls/config.pbtxt': `backend: "python"${tensors}`,
  'calls/1/model.py': `
import triton_python_backend_utils as pb_utils
import numpy as np

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            def call(**trace):
                inner = pb_utils.InferenceRequest(
                    model_name="tells", inputs=request.inputs(), requested_output_names=["OUT"], **trace)
                response = inner.exec()
                return pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()[0].decode()
            call()
            text = str(request.trace().get_context()) + "|" + call(trace=request.trace())
            out = np.array([text.encode()], dtype=object)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]))
        return responses
`,
  'chain/1/': '',
  'chain/config.pbtxt': `platform: "ensemble"${tensors}
ensemble_scheduling { step [ ${step('tells', 'IN', 'MIDDLE')}, ${step('calls', 'MIDDLE', 'OUT')} ] }`,
}

const traceId = '0af7651916cd43dd8448eb211c80319c'
const callerSpan = 'b7ad6b7169203331'

async function infer(server: ServerProcess, model: string, headers: Record<string, string> = {}, text = 'x') {
  const body = JSON.stringify({
    id: 'mine',
    inputs: [{ name: 'IN', shape: [1], datatype: 'BYTES', data: [text] }],
  })
  const answer = await fetch(`${server.url}/v2/models/${model}/infer`, { method: 'POST', body, headers })
  const parsed = (await answer.json()) as { outputs?: { data: string[] }[]; error?: string }
  return parsed.outputs?.[0]?.data[0] ?? parsed.error ?? ''
}

const portOf = (server: ServerProcess, service: string): number =>
  Number(new RegExp(`Started ${service} at [^\\s"]+:(\\d+)`).exec(server.output)?.[1])

const eventsOf = ({ events = [] }: ReceivedSpan): string[] => events.map(({ name }) => name)

describe('a server with --trace-config mode=opentelemetry', () => {
  let repository: { readonly root: string; readonly remove: () => Promise<void> }
  let receiver: OtlpReceiver
  let server: ServerProcess

  const start = (url: string, ...more: string[]): Promise<ServerProcess> =>
    startServerProcess([
      `--model-repository=${repository.root}`,
      '--trace-config=mode=opentelemetry',
      '--trace-config=level=TIMESTAMPS',
      `--trace-config=opentelemetry,url=${url}`,
      '--trace-config=opentelemetry,resource=service.name=under-test',
      '--trace-config=opentelemetry,resource=zone=here',
      '--trace-config=opentelemetry,bsp_schedule_delay=50',
      ...more,
    ])

  before(async () => {
    repository = await temporaryRepository(repositoryFiles)
    receiver = await OtlpReceiver.start()
    server = await start(`http://127.0.0.1:${receiver.httpPort}/v1/traces`, '--trace-config=rate=0')
  })
  after(async () => {
    await server.stop()
    await receiver.stop()
    await repository.remove()
  })

  test('gives every part of a composed request its span under its caller’s, and the models the context', async () => {
    const headers = { traceparent: `00-${traceId}-${callerSpan}-01`, tracestate: 'vendor=1' }
    const answer = await infer(server, 'chain', headers)
    const spans = await receiver.received(8)
    assert.equal(spans.length, 8)
    const named = (name: string): ReceivedSpan[] => spans.filter((span) => span.name === name)
    const [root, chain, calls] = ['InferRequest', 'chain', 'calls'].map((name) => named(name)[0] as ReceivedSpan)
    assert.ok(root !== undefined && chain !== undefined && calls !== undefined)
    assert.equal(root.parentSpanId, callerSpan)
    assert.equal(chain.parentSpanId, root.spanId)
    assert.equal(calls.parentSpanId, chain.spanId)
    const told = named('tells')
    assert.deepEqual(told.map(({ parentSpanId }) => parentSpanId).sort(), [chain.spanId, calls.spanId].sort())
    assert.deepEqual(
      named('compute')
        .map(({ parentSpanId }) => parentSpanId)
        .sort(),
      [calls.spanId, ...told.map(({ spanId }) => spanId)].sort(),
      'the ensemble itself computes nothing',
    )
    for (const span of spans) {
      assert.equal(span.traceId, traceId)
      assert.equal(span.traceState, 'vendor=1')
      assert.equal(span.kind, 'SPAN_KIND_SERVER')
      assert.ok(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano))
      const parent = spans.find(({ spanId }) => spanId === span.parentSpanId)
      if (parent === undefined) continue
      assert.ok(BigInt(span.startTimeUnixNano) >= BigInt(parent.startTimeUnixNano), `${span.name} begins too early`)
    }
    const ofModel = (span: ReceivedSpan): string => `00-${traceId}-${span.spanId}-01`
    const first = told.find(({ parentSpanId }) => parentSpanId === chain.spanId) as ReceivedSpan
    const second = told.find(({ parentSpanId }) => parentSpanId === calls.spanId) as ReceivedSpan
    const context = JSON.stringify({ traceparent: ofModel(calls), tracestate: 'vendor=1' })
    assert.equal(
      answer,
      `${context}|x|${ofModel(first)}|vendor=1|${ofModel(second)}|vendor=1`,
      'models are told the context of their own span',
    )
    assert.deepEqual(attributesOf(chain.attributes), {
      'triton.model_name': 'chain',
      'triton.model_version': '1',
      'triton.trace_id': '1',
      'triton.trace_parent_id': '0',
      'triton.request_id': 'mine',
    })
    assert.equal(attributesOf(calls.attributes)['triton.trace_parent_id'], '1')
    assert.deepEqual(eventsOf(root), [
      'HTTP_RECV_START',
      'HTTP_RECV_END',
      'INFER_RESPONSE_COMPLETE',
      'HTTP_SEND_START',
      'HTTP_SEND_END',
    ])
    assert.deepEqual(eventsOf(chain), ['REQUEST_START', 'QUEUE_START', 'REQUEST_END'])
    assert.deepEqual(eventsOf(named('compute')[0] as ReceivedSpan), [
      'COMPUTE_START',
      'COMPUTE_INPUT_END',
      'COMPUTE_OUTPUT_START',
      'COMPUTE_END',
    ])
    const [received] = receiver.exports
    assert.equal(received?.headers['path'], '/v1/traces')
    const [ofResource] = received?.export.resourceSpans ?? []
    assert.deepEqual(attributesOf(ofResource?.resource.attributes), { 'service.name': 'under-test', zone: 'here' })
    assert.equal(ofResource?.scopeSpans[0]?.scope.name, 'triton-server')
  })

  test('with rate 0 traces only what its callers record, and shows the trace among the exemplars', async () => {
    const before = receiver.spans.length
    const other = 'f'.repeat(32)
    await infer(server, 'tells')
    await infer(server, 'tells', { traceparent: `00-${traceId}-${callerSpan}-00` })
    await infer(server, 'tells', { traceparent: 'nonsense' })
    await infer(server, 'tells', { traceparent: `00-${other}-${callerSpan}-01` })
    const spans = (await receiver.received(before + 3)).slice(before)
    assert.deepEqual([...new Set(spans.map((span) => span.traceId))], [other])
    const page = await fetch(`http://127.0.0.1:${portOf(server, 'Metrics Service')}/metrics`, {
      headers: { accept: 'application/openmetrics-text; version=1.0.0' },
    })
    const text = await page.text()
    assert.match(
      text,
      new RegExp(`galatea_request_duration_seconds_bucket\\{model="tells"[^\\n]*# \\{trace_id="${other}"`),
    )
    assert.match(text, /^galatea_trace_spans_exported_total 11$/m)
    assert.match(text, /^galatea_trace_spans_dropped_total\{reason="queue_full"\} 0$/m)
  })

  test('takes the context of gRPC calls from their metadata, and marks what failed', async () => {
    const before = receiver.spans.length
    const headers = { traceparent: `00-${traceId}-${callerSpan}-01` }
    await using client = createGrpcClient({
      url: `http://127.0.0.1:${portOf(server, 'GRPCInferenceService')}`,
      headers,
    })
    await assert.rejects(client.infer('tells', { IN: ['fail'] }), /as told/)
    const spans = (await receiver.received(before + 3)).slice(before)
    const root = spans.find(({ name }) => name === 'InferRequest') as ReceivedSpan
    assert.equal(root.parentSpanId, callerSpan)
    assert.equal(root.status?.code, 'STATUS_CODE_ERROR')
    assert.match(root.status?.message ?? '', /as told/)
  })

  test('shows its settings as Triton does, and changes them while it runs', async () => {
    const settings = await fetch(`${server.url}/v2/trace/setting`)
    assert.equal(
      await settings.text(),
      `{"trace_level":["TIMESTAMPS"],"trace_rate":"0","trace_count":"-1","trace_mode":"opentelemetry",` +
        `"url":"http://127.0.0.1:${receiver.httpPort}/v1/traces","resource":"service.name=under-test",` +
        `"resource":"zone=here","bsp_max_export_batch_size":"512","bsp_schedule_delay":"50","bsp_max_queue_size":"2048"}`,
    )
    const before = receiver.spans.length
    await fetch(`${server.url}/v2/models/tells/trace/setting`, { method: 'POST', body: '{"trace_rate":"1"}' })
    await infer(server, 'tells')
    const spans = (await receiver.received(before + 3)).slice(before)
    assert.equal(spans.find(({ name }) => name === 'InferRequest')?.parentSpanId, '')
  })

  test('speaks OTLP over gRPC too, and sends what it still has when it ends', async () => {
    const before = receiver.spans.length
    await using late = await start(
      `grpc://127.0.0.1:${receiver.grpcPort}`,
      '--trace-config=rate=1',
      '--trace-config=opentelemetry,bsp_schedule_delay=600000',
    )
    await infer(late, 'tells')
    assert.deepEqual(await late.stop(), { code: 0, signal: null })
    const spans = (await receiver.received(before + 3)).slice(before)
    assert.deepEqual(spans.map(({ name }) => name).sort(), ['InferRequest', 'compute', 'tells'])
    assert.equal(receiver.exports.at(-1)?.protocol, 'grpc')
  })
})

test('a collector that is away is told of once, costs no request and does not hold up the exit', async (t) => {
  const repository = await temporaryRepository({ 'tells/1/model.ts': repositoryFiles['tells/1/model.ts'] })
  t.after(repository.remove)
  await using server = await startServerProcess([
    `--model-repository=${repository.root}`,
    '--trace-config=mode=opentelemetry',
    '--trace-config=level=TIMESTAMPS',
    '--trace-config=rate=1',
    '--trace-config=opentelemetry,url=http://127.0.0.1:1/v1/traces',
    '--trace-config=opentelemetry,bsp_schedule_delay=1',
  ])
  for (let i = 0; i < 5; i++) assert.match(await infer(server, 'tells'), /^x\|00-/)
  await server.stop()
  assert.equal(server.output.split('traces do not reach their collector').length - 1, 1, server.output)
})

test('in trace files the parts of a composed request name their parent', async (t) => {
  const repository = await temporaryRepository(repositoryFiles)
  t.after(repository.remove)
  const file = path.join(repository.root, 'trace.json')
  await using server = await startServerProcess([
    `--model-repository=${repository.root}`,
    '--trace-config=level=TIMESTAMPS',
    '--trace-config=rate=1',
    `--trace-config=triton,file=${file}`,
  ])
  assert.equal(await infer(server, 'chain'), 'None|x||||', 'there is no context to pass on')
  await server.stop()
  type Part = { id: number; model_name?: string; parent_id?: number }
  const records = JSON.parse(await readFile(file, 'utf8')) as Part[]
  const parts = records.filter(({ model_name }) => model_name !== undefined)
  const byId = new Map(parts.map((part) => [part.id, part]))
  const lineage = (part: Part): string =>
    part.parent_id === undefined
      ? `${part.model_name}`
      : `${lineage(byId.get(part.parent_id) as Part)}>${part.model_name}`
  assert.deepEqual(parts.map(lineage).sort(), ['chain', 'chain>calls', 'chain>calls>tells', 'chain>tells'])
})

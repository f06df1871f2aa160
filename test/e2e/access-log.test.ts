// --access-log of a real server: a line for every request over HTTP and gRPC, and files that others rotate.

import assert from 'node:assert/strict'
import { readFile, rename } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { createGrpcClient } from '../../src/client/node.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { startServerProcess } from './server-process.ts'

const model = (isDecoupled: boolean): string => `
import { fromStrings, InferenceError } from 'galatea/model'
export const config = {
  decoupled: ${isDecoupled},
  input: [{ name: 'IN', dataType: 'BYTES', dims: [1] }],
  output: [{ name: 'OUT', dataType: 'BYTES', dims: [1] }],
}
const answer = (request) => {
  if (request.input('IN').asStrings()[0] === 'fail') throw new InferenceError('no', 'INVALID_ARG')
  return [fromStrings('OUT', [1], ['secret-answer'])]
}
${
  isDecoupled
    ? 'export async function* infer(request) { yield answer(request); yield answer(request) }'
    : 'export function infer(request) { return answer(request) }'
}
`

type Line = Readonly<Record<string, string | number | boolean>>

const readLines = async (file: string): Promise<Line[]> =>
  (await readFile(file, 'utf8'))
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)

test('every request over HTTP and gRPC leaves a line, and files are rotated without loss', async (t) => {
  const repository = await temporaryRepository({
    'once/1/model.ts': model(false),
    'twice/1/model.ts': model(true),
  })
  t.after(repository.remove)
  const file = path.join(repository.root, 'access.log')
  const server = await startServerProcess([
    `--model-repository=${repository.root}`,
    `--access-log=${file}`,
    '--log-format=ISO8601',
  ])
  t.after(() => server.stop())
  const post = async (target: string, body: string, headers: Record<string, string> = {}): Promise<number> => {
    const answer = await fetch(`${server.url}${target}`, { method: 'POST', body, headers })
    await answer.arrayBuffer()
    return answer.status
  }
  const infer = (text: string, id: string): string =>
    JSON.stringify({ id, inputs: [{ name: 'IN', shape: [1], datatype: 'BYTES', data: [text] }] })
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
  assert.equal(
    await post('/v2/models/once/infer?token=secret-query', infer('secret-in', 'a"b\n'), { traceparent }),
    200,
  )
  assert.equal(await post('/v2/models/once/infer', infer('fail', 'x'.repeat(1000))), 400)
  assert.equal(await post('/v2/models/twice/generate_stream', '{"IN":"x"}', { authorization: 'secret-token' }), 200)
  assert.equal(await post('/v2/nowhere', ''), 404)
  {
    await using client = createGrpcClient({ url: `http://${server.grpcAddress}` })
    await client.infer('once', { IN: ['x'] }, { id: 'unary' })
    await assert.rejects(client.infer('once', { IN: ['fail'] }))
    for await (const result of client.inferStream('twice', { IN: ['x'] })) assert.ok(result.outputs.length > 0)
  }
  // What comes after the signal is in the new file; the answer to it says that the signal was heard.
  await rename(file, `${file}.1`)
  server.signal('SIGHUP')
  await server.said('log files were opened anew')
  await fetch(`${server.url}/v2`)
  await server.stop()
  const text = (await readFile(`${file}.1`, 'utf8')) + (await readFile(file, 'utf8'))
  assert.doesNotMatch(text, /secret/)
  assert.equal((await readLines(file)).at(-1)?.['path'], '/v2')
  const lines = [...(await readLines(`${file}.1`)), ...(await readLines(file))]
  const shown = lines
    .filter((line) => !/health|^\/v2$|Metadata|Live|Ready|Config/.test(`${line['path']}`))
    .map((line) => [
      line['protocol'],
      line['method'],
      line['path'],
      line['model'] ?? '',
      line['status'],
      line['responses'] ?? 0,
    ])
  assert.deepEqual(shown, [
    ['http', 'POST', '/v2/models/once/infer', 'once', 200, 1],
    ['http', 'POST', '/v2/models/once/infer', 'once', 400, 1],
    ['http', 'POST', '/v2/models/twice/generate_stream', 'twice', 200, 3],
    ['http', 'POST', '/v2/nowhere', '', 404, 0],
    ['grpc', 'ModelInfer', '/inference.GRPCInferenceService/ModelInfer', 'once', 0, 1],
    ['grpc', 'ModelInfer', '/inference.GRPCInferenceService/ModelInfer', 'once', 3, 1],
    ['grpc', 'ModelStreamInfer', '/inference.GRPCInferenceService/ModelStreamInfer', 'twice', 0, 3],
    ['grpc', 'ModelStreamInfer', '/inference.GRPCInferenceService/ModelStreamInfer', '', 0, 0],
  ])
  const [first] = lines
  assert.equal(first?.['request_id'], 'a"b\n')
  assert.equal(first?.['trace_id'], 'a'.repeat(32))
  assert.equal(first?.['version'], '1')
  assert.equal(first?.['client'], '127.0.0.1')
  for (const key of ['bytes_in', 'bytes_out', 'total_us', 'compute_us']) assert.ok(Number(first?.[key]) > 0, key)
  assert.equal(`${lines[1]?.['request_id']}`.length, 259)
})

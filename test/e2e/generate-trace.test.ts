// Traces of requests that are answered in pieces: generate, generate_stream and streams of gRPC.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { createGrpcClient } from '../../src/client/node.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { startServerProcess } from './server-process.ts'

const model = (isDecoupled: boolean): string => `
import { fromStrings } from 'galatea/model'
export const config = {
  decoupled: ${isDecoupled},
  input: [{ name: 'IN', dataType: 'BYTES', dims: [1] }],
  output: [{ name: 'OUT', dataType: 'BYTES', dims: [1] }],
}
${
  isDecoupled
    ? "export async function* infer() { yield [fromStrings('OUT', [1], ['a'])]; yield [fromStrings('OUT', [1], ['b'])] }"
    : "export function infer() { return [fromStrings('OUT', [1], ['a'])] }"
}
`

type TraceRecord = {
  readonly id: number
  readonly model_name?: string
  readonly timestamps?: readonly { readonly name: string; readonly ns: number }[]
}

/** What happens on the way of every request, in this order. */
const common = [
  'REQUEST_START',
  'QUEUE_START',
  'COMPUTE_START',
  'COMPUTE_INPUT_END',
  'COMPUTE_OUTPUT_START',
  'COMPUTE_END',
  'REQUEST_END',
]

test('generate, generate_stream and gRPC streams are traced as infer is', async () => {
  const repository = await temporaryRepository({
    'once/1/model.ts': model(false),
    'twice/1/model.ts': model(true),
  })
  const file = path.join(repository.root, 'trace.json')
  const server = await startServerProcess([
    `--model-repository=${repository.root}`,
    `--trace-config=triton,file=${file}`,
    '--trace-config=level=TIMESTAMPS',
    '--trace-config=rate=1',
  ])
  try {
    const post = async (target: string): Promise<string> => {
      const answer = await fetch(`${server.url}/v2/models/${target}`, { method: 'POST', body: '{"IN":"x"}' })
      assert.equal(answer.status, 200)
      return answer.text()
    }
    await post('once/generate')
    assert.equal((await post('twice/generate_stream')).split('data: ').length, 3)
    await using client = createGrpcClient({ url: `http://${server.grpcAddress}` })
    let received = 0
    for await (const result of client.inferStream('twice', { IN: ['x'] })) received += result.outputs.length
    assert.equal(received, 2)
    const { code } = await server.stop()
    assert.equal(code, 0)
    const records = JSON.parse(await readFile(file, 'utf8')) as TraceRecord[]
    const traces = [1, 2, 3].map((id) => ({
      model: records.find((record) => record.id === id && record.model_name !== undefined)?.model_name,
      stamps: records.filter((record) => record.id === id).flatMap(({ timestamps = [] }) => timestamps),
    }))
    assert.deepEqual(
      traces.map((trace) => trace.model),
      ['once', 'twice', 'twice'],
    )
    traces.forEach(({ stamps }, i) => {
      const [received, sent] = i < 2 ? ['HTTP_RECV', 'HTTP_SEND'] : ['GRPC_WAITREAD', 'GRPC_SEND']
      const wanted = [`${received}_START`, `${received}_END`, ...common, `${sent}_START`, `${sent}_END`]
      const at = new Map(stamps.map(({ name, ns }) => [name, ns]))
      assert.deepEqual(
        wanted.filter((name) => !((at.get(name) ?? 0) > 0)),
        [],
        JSON.stringify(stamps),
      )
      for (const name of [...common, `${sent}_END`]) {
        assert.ok((at.get(name) as number) >= (at.get(`${received}_START`) as number), name)
      }
      const answers = stamps.filter(({ name }) => name === 'INFER_RESPONSE_COMPLETE').length
      assert.ok(answers >= (i === 0 ? 1 : 2), `${answers} responses`)
    })
  } finally {
    await server.stop()
    await repository.remove()
  }
})

// The commands of the clients guide for grpcurl, run by another program that asks the server for its descriptions:
// `buf curl`, whose releases npm has. Neither knows our .proto files.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { requireTool } from '../tool.ts'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

let buf: string
let server: ServerProcess
let url: string

before(async () => {
  buf = await requireTool('buf')
  server = await startServerProcess([`--model-repository=${exampleModels}`, '--allow-tfserving', '--tfserving-port=0'])
  url = `http://${server.grpcAddress}`
})
after(async () => {
  await server?.stop()
})

/** `-d` and what follows the address, of each grpcurl command in the guide. */
async function guideCommands(): Promise<{ readonly data: string | null; readonly words: readonly string[] }[]> {
  const guide = await readFile(path.join(projectRoot, 'docs/guide/clients.md'), 'utf8')
  return [...guide.matchAll(/^grpcurl -plaintext (?:-d '(.*)' )?localhost:8001 (.+)$/gm)].map(([, data, rest]) => ({
    data: data ?? null,
    words: (rest as string).split(' '),
  }))
}

async function bufCurl(reflection: string, ...args: string[]): Promise<string> {
  const common = ['curl', '--http2-prior-knowledge', '--protocol', 'grpc', '--reflect-protocol', reflection]
  const { stdout } = await promisify(execFile)(buf, [...common, ...args])
  return stdout
}

for (const reflection of ['grpc-v1', 'grpc-v1alpha']) {
  test(`the guide's commands work through reflection ${reflection}`, async () => {
    const answers = new Map<string, string>()
    for (const { data, words } of await guideCommands()) {
      const [method = '', service = ''] = words
      const args =
        method === 'list' ? ['--list-methods', url] : [...(data === null ? [] : ['-d', data]), `${url}/${method}`]
      const answer = await bufCurl(reflection, ...args)
      if (method === 'list') assert.match(answer, new RegExp(`^${service}/ModelInfer$`, 'm'))
      answers.set(method.slice(method.indexOf('/') + 1), answer)
    }
    assert.deepEqual([...answers.keys()], ['list', 'ModelMetadata', 'Check', 'ModelInfer'])
    const metadata = JSON.parse(answers.get('ModelMetadata') as string) as { inputs: { name: string }[] }
    assert.equal(metadata.inputs[0]?.name, 'pixels')
    assert.deepEqual(JSON.parse(answers.get('Check') as string), { status: 'SERVING' })
    const { rawOutputContents } = JSON.parse(answers.get('ModelInfer') as string) as { rawOutputContents: string[] }
    assert.equal(Buffer.from(rawOutputContents[0] as string, 'base64').readInt32LE(4 * 15), 16)
  })
}

test('methods that ask for nothing answer by their descriptions alone', async () => {
  const services = (await bufCurl('grpc-v1', '--list-services', url)).trim().split('\n')
  assert.ok(services.includes('inference.GRPCInferenceService'))
  const methods = (await bufCurl('grpc-v1', '--list-methods', url)).trim().split('\n')
  const unary = methods.filter((method) =>
    /^inference\..*\/(Server|SystemSharedMemoryStatus|RepositoryIndex|ModelStatistics)/.test(method),
  )
  assert.ok(unary.length >= 6, methods.join('\n'))
  for (const method of unary) JSON.parse(await bufCurl('grpc-v1', '-d', '{}', `${url}/${method}`))
})

test("TensorFlow Serving's services are described, with tensors and examples", async () => {
  const services = (await bufCurl('grpc-v1', '--list-services', url)).trim().split('\n')
  assert.deepEqual(
    services.filter((name) => name.startsWith('tensorflow')),
    ['tensorflow.serving.ModelService', 'tensorflow.serving.PredictionService'],
  )
  const call = async (method: string, request: unknown): Promise<Record<string, unknown>> => {
    const answer = await bufCurl('grpc-v1', '-d', JSON.stringify(request), `${url}/tensorflow.serving.${method}`)
    return JSON.parse(answer) as Record<string, unknown>
  }
  const modelSpec = { name: 'simple', version: '1' }
  const status = await call('ModelService/GetModelStatus', { modelSpec })
  assert.deepEqual(status, { modelVersionStatus: [{ version: '1', state: 'AVAILABLE', status: {} }] })
  const tensor = { dtype: 'DT_INT32', tensorShape: { dim: [{ size: '1' }, { size: '16' }] }, intVal: [2] }
  const { outputs } = await call('PredictionService/Predict', {
    modelSpec,
    inputs: { INPUT0: tensor, INPUT1: tensor },
    outputFilter: ['OUTPUT0'],
  })
  assert.deepEqual((outputs as Record<string, { intVal: number[] }>)['OUTPUT0']?.intVal, Array<number>(16).fill(4))
})

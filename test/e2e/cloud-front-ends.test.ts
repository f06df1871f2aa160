// SageMaker's and Vertex AI's contracts with a container, by requests as their public documents show them.

import assert from 'node:assert/strict'
import { cp, mkdir } from 'node:fs/promises'
import path from 'node:path'
import { describe, test } from 'node:test'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { until } from '../until.ts'
import { exampleModels, startServerProcess } from './server-process.ts'

const echo = (name: string, batch = 8): string =>
  `${name === '' ? '' : `name: "${name}"\n`}backend: "identity" max_batch_size: ${batch}
   input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }`

const jsonRequest = {
  inputs: [{ name: 'INPUT0', datatype: 'FP32', shape: [1, 3], data: [1, 2, 3] }],
}

/** JSON, then the bytes of three floats. */
function binaryRequest(): { readonly head: string; readonly body: Buffer } {
  const head = JSON.stringify({
    inputs: [{ name: 'INPUT0', datatype: 'FP32', shape: [1, 3], parameters: { binary_data_size: 12 } }],
    outputs: [{ name: 'OUTPUT0', parameters: { binary_data: true } }],
  })
  return { head, body: Buffer.concat([Buffer.from(head), Buffer.from(new Float32Array([4, 5, 6]).buffer)]) }
}

type Answer = {
  readonly status: number
  readonly type: string | null
  readonly body: Buffer
  /** The bytes of the JSON, where a header says them. */
  readonly headBytes: string | null
}

async function ask(url: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(url, init)
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    headBytes: response.headers.get('inference-header-content-length'),
    body: Buffer.from(await response.arrayBuffer()),
  }
}

const post = (url: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  ask(url, {
    method: 'POST',
    body: body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body),
    headers,
  })
const json = ({ body }: Answer): Record<string, unknown> => JSON.parse(body.toString()) as Record<string, unknown>

async function assertBinaryAnswer(answer: Answer, size: number): Promise<void> {
  assert.equal(answer.status, 200, answer.body.toString())
  const head = JSON.parse(answer.body.toString('utf8', 0, size)) as { outputs: { name: string }[] }
  assert.equal(head.outputs[0]?.name, 'OUTPUT0')
  assert.deepEqual(answer.body.subarray(size), Buffer.from(new Float32Array([4, 5, 6]).buffer))
}

describe('SageMaker', () => {
  const mediaType = 'application/vnd.sagemaker-triton.binary+json'

  test('a single model answers at /invocations in JSON and in binary, and /ping tells its health', async () => {
    const { root, remove } = await temporaryRepository({ 'only/1/': '', 'only/config.pbtxt': echo('only') })
    const server = await startServerProcess([`--model-repository=${root}`, '--allow-sagemaker', '--sagemaker-port=0'])
    const url = `http://${server.furtherAddress('Sagemaker HTTPService')}`
    assert.equal((await ask(`${url}/ping`)).status, 200)
    const answer = await post(`${url}/invocations`, jsonRequest, { 'Content-Type': 'application/octet-stream' })
    assert.equal(answer.type, 'application/json')
    assert.deepEqual((json(answer)['outputs'] as { data: number[] }[])[0]?.data, [1, 2, 3])
    const { head, body } = binaryRequest()
    const binary = (size: string): Promise<Answer> =>
      post(`${url}/invocations`, body, { 'Content-Type': `${mediaType};json-header-size=${size}` })
    const told = await binary(String(head.length))
    const size = /^application\/vnd\.sagemaker-triton\.binary\+json;json-header-size=(\d+)$/.exec(told.type ?? '')?.[1]
    assert.equal(told.headBytes, null)
    await assertBinaryAnswer(told, Number(size))
    const refused = async (size: string): Promise<unknown> => {
      const answer = await binary(size)
      return [answer.status, json(answer)['error']]
    }
    assert.deepEqual(await refused('x'), [400, 'Unable to parse inference header size, got: x'])
    assert.deepEqual(await refused('9999999999'), [
      400,
      'Unable to parse inference header size, value is out of range, got: 9999999999',
    ])
    assert.deepEqual(await refused(String(body.length + 1)), [
      400,
      `inference header size should be in range (0, ${body.length}), got: ${body.length + 1}`,
    ])
    assert.equal((await ask(`${url}/elsewhere`)).status, 400)
    assert.equal((await ask(`${url}/invocations`)).status, 405)
    // Neither bodies nor answers are compressed: what a proxy says about that counts for nothing.
    const plain = await fetch(`${url}/invocations`, {
      method: 'POST',
      body: JSON.stringify(jsonRequest),
      headers: { 'Accept-Encoding': 'gzip', 'Content-Encoding': 'br' },
    })
    assert.deepEqual([plain.status, plain.headers.get('content-encoding')], [200, null])
    assert.doesNotMatch(server.output, /without effect/)
    await server.stop()
    await remove()
  })

  test('without a default model and with several, the answer is that of Triton, with advice', async () => {
    const flags = [`--model-repository=${exampleModels}`, '--allow-sagemaker', '--sagemaker-port=0']
    const text = "Request for unknown model: 'unspecified_SAGEMAKER_TRITON_DEFAULT_MODEL_NAME' is not found"
    await using server = await startServerProcess(flags)
    const refused = await post(`http://${server.furtherAddress('Sagemaker HTTPService')}/invocations`, jsonRequest)
    assert.equal(refused.status, 404)
    assert.match(String(json(refused)['error']), new RegExp(`^${text}: the server has \\d models, and`))
    await using triton = await startServerProcess([...flags, '--triton-defaults'])
    const told = await post(`http://${triton.furtherAddress('Sagemaker HTTPService')}/invocations`, jsonRequest)
    assert.deepEqual([told.status, told.type, json(told)], [404, 'text/plain', { error: text }])
  })

  test('of many models each is loaded, listed, invoked and unloaded', async () => {
    const { root, remove } = await temporaryRepository({ 'repository/': '', 'ml/': '' })
    const modelRoot = path.join(root, 'ml')
    const unpack = async (hash: string, model: string): Promise<string> => {
      const folder = path.join(modelRoot, hash, 'model')
      await mkdir(folder, { recursive: true })
      await cp(path.join(exampleModels, model), path.join(folder, model), { recursive: true })
      return folder
    }
    const [first, second] = [await unpack('hash1', 'simple'), await unpack('hash2', 'digits')]
    const server = await startServerProcess(
      [
        `--model-repository=${path.join(root, 'repository')}`,
        '--model-control-mode=explicit',
        '--allow-sagemaker',
        '--sagemaker-port=0',
        `--sagemaker-model-root=${modelRoot}`,
      ],
      { environment: { SAGEMAKER_MULTI_MODEL: 'true' } },
    )
    const url = `http://${server.furtherAddress('Sagemaker HTTPService')}`
    assert.equal((await ask(`${url}/ping`)).status, 200)
    const load = (name: string, folder: string): Promise<Answer> =>
      post(`${url}/models`, { model_name: name, url: folder })
    assert.equal((await load('abc', first)).status, 200)
    assert.equal((await load('def', second)).status, 200)
    assert.equal((await load('abc', first)).status, 409)
    const again = await load('other', first)
    assert.deepEqual(
      [again.status, json(again)],
      [409, { error: "model 'abc' is already loaded: DELETE /models/abc unloads it" }],
    )
    const list = json(await ask(`${url}/models`))['models'] as { modelName: string; modelUrl: string }[]
    assert.deepEqual(list, [
      { modelName: 'abc', modelUrl: first },
      { modelName: 'def', modelUrl: second },
    ])
    assert.deepEqual(json(await ask(`${url}/models/`))['models'], list)
    assert.deepEqual(json(await ask(`${url}/models/abc`)), { modelName: 'abc', modelUrl: first })
    for (const place of ['/models', '/models/abc']) {
      assert.equal((await ask(`${url}${place}`, { method: 'PUT' })).status, 400, place)
    }
    const row = Array.from({ length: 16 }, (_, i) => i)
    const tensor = (name: string): object => ({ name, datatype: 'INT32', shape: [1, 16], data: row })
    const pair = { inputs: [tensor('INPUT0'), tensor('INPUT1')] }
    const sum = json(await post(`${url}/models/abc/invoke`, pair))
    assert.equal(sum['model_name'], 'abc')
    const bad = await post(`${url}/models/abc/invoke`, { inputs: [tensor('INPUT0')] })
    assert.equal(bad.status, 400)
    assert.equal((await post(`${url}/models/nobody/invoke`, pair)).status, 404)
    assert.equal((await ask(`${url}/models/abc`, { method: 'DELETE' })).status, 200)
    const gone = await ask(`${url}/models/abc`, { method: 'DELETE' })
    assert.deepEqual([gone.status, json(gone)], [404, { error: "model 'abc' is not loaded" }])
    assert.equal((await post(`${url}/models/abc/invoke`, pair)).status, 404)
    assert.equal((await load('abc', first)).status, 200)
    assert.equal((await ask(`${url}/models/abc`, { method: 'DELETE' })).status, 200)
    // Customers name an archive by its path.
    const target = { 'X-Amzn-SageMaker-Target-Model': 'tenant/simple.tar.gz' }
    assert.equal((await post(`${url}/models`, { model_name: 'hash', url: first }, target)).status, 200)
    const named = await post(`${url}/models/hash/invoke`, pair, target)
    assert.deepEqual([named.status, json(named)['model_name']], [200, 'tenant%2Fsimple.tar.gz'])
    assert.equal((await post(`${url}/models/hash/invoke`, pair)).status, 200)
    assert.equal((await ask(`${url}/models/hash`, { method: 'DELETE', headers: target })).status, 200)
    const elsewhere = { 'X-Amzn-SageMaker-Target-Model': '../simple' }
    assert.equal((await post(`${url}/models`, { model_name: 'up', url: first }, elsewhere)).status, 400)
    await server.stop()
    await remove()
  })

  test('what is loaded twice is told in the words of Triton with --triton-defaults', async () => {
    const { root, remove } = await temporaryRepository({
      'repository/': '',
      ...Object.fromEntries(['h1', 'h2'].flatMap((hash) => [[`ml/${hash}/model/config.pbtxt`, echo('')], [`ml/${hash}/model/1/`, '']])), // prettier-ignore
    })
    const server = await startServerProcess([
      `--model-repository=${path.join(root, 'repository')}`,
      '--model-control-mode=explicit',
      '--allow-sagemaker',
      '--sagemaker-port=0',
      `--sagemaker-model-root=${path.join(root, 'ml')}`,
      '--triton-defaults',
    ])
    const url = `http://${server.furtherAddress('Sagemaker HTTPService')}/models`
    const load = async (name: string, hash: string): Promise<unknown[]> => {
      const folder = path.join(root, 'ml', hash, 'model')
      const { status, type, body } = await post(url, { model_name: name, url: folder })
      return [status, type, body.toString()]
    }
    assert.deepEqual(await load('m', 'h1'), [200, 'text/plain', ''])
    const used = `{"error":"model repository '${path.join(root, 'ml/h1')}' has already been registered"}`
    assert.deepEqual(await load('m', 'h1'), [409, 'text/plain', used])
    assert.deepEqual(await load('n', 'h1'), [409, 'text/plain', used])
    const taken = `{"error":"failed to register 'm', there is a conflicting mapping for 'm'"}`
    assert.deepEqual(await load('m', 'h2'), [409, 'text/plain', taken])
    const absent = `{"error":"failed to register '${path.join(root, 'ml/h3/model')}', repository not found"}`
    assert.deepEqual(await load('m', 'h3'), [400, 'text/plain', absent])
    const missing = await ask(`${url}/n`, { method: 'DELETE' })
    assert.deepEqual([missing.status, missing.body.length], [404, 0])
    await server.stop()
    await remove()
  })

  test('of the ensembles of an archive, the one that no other calls is the model', async () => {
    const calling = (model: string): string => `platform: "ensemble" max_batch_size: 8
      input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
      ensemble_scheduling { step { model_name: "${model}" model_version: -1
        input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } } }`
    const { root, remove } = await temporaryRepository({
      'repository/': '',
      'ml/h/model/a_inner/config.pbtxt': calling('part'),
      'ml/h/model/a_inner/1/': '',
      'ml/h/model/b_outer/config.pbtxt': calling('a_inner'),
      'ml/h/model/b_outer/1/': '',
      'ml/h/model/part/config.pbtxt': echo(''),
      'ml/h/model/part/1/': '',
    })
    await using server = await startServerProcess([
      `--model-repository=${path.join(root, 'repository')}`,
      '--model-control-mode=explicit',
      '--allow-sagemaker',
      '--sagemaker-port=0',
      `--sagemaker-model-root=${path.join(root, 'ml')}`,
    ])
    const url = `http://${server.furtherAddress('Sagemaker HTTPService')}/models`
    const loaded = await post(url, { model_name: 'pipeline', url: path.join(root, 'ml/h/model') })
    assert.equal(loaded.status, 200, loaded.body.toString())
    const answer = json(await post(`${url}/pipeline/invoke`, jsonRequest))
    assert.deepEqual((answer['outputs'] as { data: number[] }[])[0]?.data, [1, 2, 3])
    const config = await ask(`${server.url}/v2/models/pipeline/config`)
    assert.match(config.body.toString(), /"model_name":"a_inner"/)
    assert.equal((await ask(`${url}/pipeline`, { method: 'DELETE' })).status, 200)
    await remove()
  })

  test('refuses urls outside its folder, broken requests and models that cannot load', async () => {
    const { root, remove } = await temporaryRepository({
      'repository/': '',
      'ml/bad/model/m/config.pbtxt': 'backend: "nobody_has_this" max_batch_size: 1',
      'ml/empty/model/': '',
    })
    const server = await startServerProcess([
      `--model-repository=${path.join(root, 'repository')}`,
      '--model-control-mode=explicit',
      '--allow-sagemaker',
      '--sagemaker-port=0',
      `--sagemaker-model-root=${path.join(root, 'ml')}`,
    ])
    const url = `http://${server.furtherAddress('Sagemaker HTTPService')}/models`
    const status = async (body: unknown): Promise<number> => (await post(url, body)).status
    assert.equal(await status({ model_name: 'm', url: '/etc/model' }), 400)
    assert.equal(await status({ model_name: 'm', url: path.join(root, 'ml/../repository') }), 400)
    assert.equal(await status({ model_name: 'm', url: path.join(root, 'ml/absent/model') }), 400)
    assert.equal(await status({ model_name: 'm', url: path.join(root, 'ml/empty/model') }), 400)
    assert.equal(await status({ model_name: 'm', url: path.join(root, 'ml/bad/model') }), 400)
    assert.equal(await status({ model_name: '../m', url: path.join(root, 'ml/bad/model') }), 400)
    assert.equal(await status({ url: path.join(root, 'ml/bad/model') }), 400)
    assert.equal(await status(Buffer.from('{')), 400)
    const many = path.join(root, 'ml/many/model')
    for (let i = 0; i < 257; i++) await mkdir(path.join(many, `m${i}`), { recursive: true })
    const answer = await post(url, { model_name: 'many', url: many })
    assert.match(String(json(answer)['error']), /257 folders, at most 256/, 'an archive of 257 folders is refused')
    const long = await post(url, { model_name: 'm'.repeat(4097), url: path.join(root, 'ml/bad/model') })
    assert.match(String(json(long)['error']), /of at most 4096 characters/)
    assert.deepEqual(json(await ask(url)), { models: [] })
    // A load that fails leaves nothing behind that would make SageMaker replace the server.
    assert.equal((await ask(url.replace('/models', '/ping'))).status, 200)
    await server.stop()
    await remove()
  })
})

describe('Vertex AI', () => {
  const mediaType = 'application/vnd.vertex-ai-triton.binary+json'
  const routes = { AIP_PREDICT_ROUTE: '/v1/endpoints/1/deployedModels/2:predict', AIP_HEALTH_ROUTE: '/v1/endpoints/1' }

  test('the environment of the platform opens the port, names the routes and the model', async () => {
    const { root, remove } = await temporaryRepository({
      'a/1/': '',
      'a/config.pbtxt': echo('a'),
      'b/1/': '',
      'b/config.pbtxt': echo('b'),
    })
    const server = await startServerProcess(
      // KServe has a page of its own at /metrics of the HTTP port.
      ['--allow-http=true', '--vertex-ai-default-model=b', '--vertex-ai-port=0', '--kserve-v1-metrics'],
      {
        environment: { ...routes, AIP_MODE: 'PREDICTION', AIP_HTTP_PORT: '9', AIP_STORAGE_URI: root },
      },
    )
    const url = `http://${server.furtherAddress('Vertex AI HTTPService')}`
    const predict = `${url}${routes.AIP_PREDICT_ROUTE}`
    await until(async () => (await ask(`${url}${routes.AIP_HEALTH_ROUTE}`)).status === 200, 'the server is healthy')
    assert.equal(json(await post(predict, jsonRequest))['model_name'], 'b')
    const { head, body } = binaryRequest()
    const type = `${mediaType};json-header-size=${head.length}`
    const told = await post(predict, body, { 'Content-Type': type })
    // As in Triton: the media type is one of requests.
    assert.equal(told.type, 'application/octet-stream')
    await assertBinaryAnswer(told, Number(told.headBytes))
    const led = (to: string, sent: unknown = {}): Promise<Answer> =>
      post(predict, sent, { 'X-Vertex-Ai-Triton-Redirect': to })
    assert.equal(json(await led('v2/models/a/infer', jsonRequest))['model_name'], 'a')
    assert.equal(json(await led('v2'))['name'], 'galatea')
    assert.equal(json(await led('v2/models/a'))['name'], 'a')
    assert.equal((await led('v2/health/ready')).status, 200)
    assert.equal((await led('v2/models/a/ready')).status, 200)
    assert.equal((await led('v2/models/stats')).status, 200)
    assert.match((await led('metrics')).body.toString(), /nv_inference_count/)
    assert.equal((await led('v2/repository/index')).status, 200)
    assert.equal((await led('v2/repository/models/a/load')).status, 403)
    assert.equal((await led('v2/systemsharedmemory/region/r/register')).status, 403)
    assert.equal((await led('v2/nothing')).status, 400)
    assert.equal((await led('v2/repository/nothing')).status, 400)
    assert.equal((await led('v2/models/a/infer?x=1', jsonRequest)).status, 400)
    assert.equal((await led('v2/../metrics')).status, 400)
    assert.equal((await ask(`${url}/elsewhere`)).status, 400)
    await server.stop()
    await remove()
  })

  test('a restricted API stays restricted behind a redirect', async () => {
    const { root, remove } = await temporaryRepository({ 'a/1/': '', 'a/config.pbtxt': echo('a') })
    const server = await startServerProcess(
      [
        `--model-repository=${root}`,
        '--allow-vertex-ai',
        '--vertex-ai-port=0',
        '--http-restricted-api=statistics:key=secret',
      ],
      { environment: routes },
    )
    const predict = `http://${server.furtherAddress('Vertex AI HTTPService')}${routes.AIP_PREDICT_ROUTE}`
    const led = (headers: Record<string, string>): Promise<Answer> =>
      post(predict, {}, { 'X-Vertex-Ai-Triton-Redirect': 'v2/models/stats', ...headers })
    assert.equal((await led({})).status, 403)
    assert.equal((await led({ key: 'secret' })).status, 200)
    await server.stop()
    await remove()
  })

  test('a server without routes, or without one default model, does not start', async () => {
    const start = (environment: Record<string, string>, ...flags: string[]): Promise<unknown> =>
      startServerProcess([`--model-repository=${exampleModels}`, '--allow-vertex-ai', ...flags], { environment })
    await assert.rejects(start({}), /AIP_PREDICT_ROUTE is not defined for Vertex AI endpoint/)
    const withoutHealth = start({ AIP_PREDICT_ROUTE: '/predict' })
    await assert.rejects(withoutHealth, /AIP_HEALTH_ROUTE is not defined for Vertex AI endpoint/)
    await assert.rejects(start({ ...routes, AIP_HEALTH_ROUTE: 'health' }), /a path as \/predict: got 'health'/)
    await assert.rejects(start(routes, '--vertex-ai-port=0'), /only a single model if default model is not specified/)
    await assert.rejects(
      start(routes, '--vertex-ai-port=0', '--vertex-ai-default-model=nobody'),
      /Expect the default model 'nobody' is loaded/,
    )
  })
})

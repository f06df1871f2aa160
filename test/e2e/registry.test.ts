// The registry and the audit log on real servers: what is said about models, what they are made of, who changed them.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { createGrpcClient, createHttpClient, type GrpcClient, type HttpClient } from '../../src/client/node.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const config = `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
`

const hashOf = (...files: readonly (readonly [string, string])[]): string => {
  const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
  return `sha256:${sha256(files.map(([name, text]) => `${sha256(text)}  ${name}\n`).join(''))}`
}

class Repository {
  readonly path: string
  readonly audit: string

  constructor(directory: string) {
    this.path = path.join(directory, 'models')
    this.audit = path.join(directory, 'audit.jsonl')
  }

  async write(file: string, text: string | Uint8Array): Promise<void> {
    const target = path.join(this.path, file)
    await mkdir(path.dirname(target), { recursive: true })
    await writeFile(target, text)
  }

  async model(name: string, registry = '', pbtxt = config): Promise<void> {
    await this.write(`${name}/config.pbtxt`, pbtxt)
    await this.write(`${name}/1/weights`, name)
    if (registry !== '') await this.write(`${name}/galatea.yaml`, registry)
  }

  /** Once there are that many. */
  async lines(count: number, file = this.audit): Promise<Record<string, unknown>[]> {
    let lines: string[] = []
    const read = async (): Promise<boolean> =>
      (lines = (await readFile(file, 'utf8')).split('\n').slice(0, -1)).length >= count
    await until(read, `${count} lines`, { seen: () => lines })
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  }
}

async function repository(context: TestContext): Promise<Repository> {
  const directory = await mkdtemp(path.join(tmpdir(), 'galatea-registry-'))
  context.after(() => rm(directory, { recursive: true, force: true }))
  return new Repository(directory)
}

async function serve(context: TestContext, models: Repository, ...flags: string[]): Promise<ServerProcess> {
  const server = await startServerProcess(['--model-repository', models.path, '--audit-log', models.audit, ...flags])
  context.after(() => server.stop())
  return server
}

const explicit = ['--model-control-mode=explicit', '--load-model=*', '--exit-on-error=false']

const json = async (server: ServerProcess, target: string, init?: RequestInit): Promise<unknown> => {
  const response = await fetch(`${server.url}${target}`, init)
  return { status: response.status, body: (await response.json()) as unknown }
}

const post = (body = ''): RequestInit => ({ method: 'POST', body })

/** Without what differs from run to run. */
const steady = (line: Record<string, unknown>): Record<string, unknown> => {
  const { time, duration_ms: durationMs, ...rest } = line
  assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.equal(typeof durationMs, 'number')
  return rest
}

test('what people say about a model, what it is made of and how it serves can be asked for, searched and listed', async (context) => {
  const models = await repository(context)
  await models.model(
    'digits',
    'owner: vision\ntags: [vision, prod]\nmetrics: {accuracy: 0.9}\nversions: {1: {owner: kim}}\n',
  )
  await models.model('words', 'owner: text\ntags: [prod]\ndescription: Counts Words\ncolour: blue\n')
  await models.model('plain')
  await models.model('broken', 'owner: 7\ntags: [vision]\n', 'backend: "identity"\nno_such_field: 1\n')
  const server = await serve(context, models, ...explicit)
  const client: HttpClient = createHttpClient({ url: server.url })

  await context.test('GET registry: the file, the versions, the hash that sha256sum gives', async () => {
    const { loaded_at: loadedAt, ...version } = (await client.modelRegistry('digits')).versions[0] ?? {}
    assert.match(loadedAt ?? '', /Z$/)
    assert.deepEqual(version, {
      version: '1',
      state: 'READY',
      content_hash: hashOf(['weights', 'digits']),
      size_bytes: 6,
      file_count: 1,
      owner: 'kim',
    })
    const { versions, ...model } = await client.modelRegistry('digits')
    assert.equal(versions.length, 1)
    assert.deepEqual(model, {
      name: 'digits',
      owner: 'vision',
      tags: ['vision', 'prod'],
      metrics: { accuracy: 0.9 },
      file: 'galatea.yaml',
    })
    const { body } = (await json(server, '/v2/models/digits/versions/1/registry')) as { body: Record<string, unknown> }
    assert.deepEqual([body['name'], body['version'], body['owner'], body['tags']], ['digits', '1', 'kim', ['vision', 'prod']]) // prettier-ignore
  })

  await context.test('a model or version that is nowhere is 404 with the usual text', async () => {
    const error = (text: string): unknown => ({ status: 404, body: { error: `Request for unknown model: ${text}` } })
    assert.deepEqual(await json(server, '/v2/models/nobody/registry'), error("'nobody' is not found"))
    assert.deepEqual(await json(server, '/v2/models/nobody/registry/history'), error("'nobody' is not found"))
    assert.deepEqual(await json(server, '/v2/models/a%2fb/registry'), error("'a%2fb' is not found"))
    assert.deepEqual(
      await json(server, '/v2/models/digits/versions/9/registry'),
      error("'digits' version 9 is not found"),
    )
  })

  await context.test('search by tag, owner and text, a page at a time', async () => {
    const names = async (search: object): Promise<string[]> =>
      (await client.searchRegistry(search)).models.map(({ name }) => name)
    assert.deepEqual(await names({}), ['broken', 'digits', 'plain', 'words'])
    assert.deepEqual(await names({ tags: ['prod'] }), ['digits', 'words'])
    assert.deepEqual(await names({ tags: ['prod', 'vision'] }), ['digits'])
    assert.deepEqual(await names({ owner: 'kim' }), ['digits'])
    assert.deepEqual(await names({ text: 'counts w' }), ['words'])
    assert.deepEqual(await names({ owner: 'nobody' }), [])
    const first = await client.searchRegistry({ limit: 3 })
    assert.deepEqual([first.total, first.next], [4, 'plain'])
    const last = await client.searchRegistry({ limit: 3, after: 'plain' })
    assert.deepEqual([last.models.map(({ name }) => name), last.total, last.next], [['words'], 4, undefined])
    assert.deepEqual(await json(server, '/v2/registry?tgs=a'), {
      status: 400,
      body: { error: "unknown query parameter 'tgs', expected one of: tag, owner, q, limit, after" },
    })
  })

  await context.test(
    'a file with a mistake in it is told of, in the answer and in the log, and stops nothing',
    async () => {
      const problem = "'owner' must be text, got the number 7; put it in quotes"
      const broken = await client.modelRegistry('broken')
      assert.deepEqual([broken.tags, broken.problems], [['vision'], [problem]])
      assert.match(broken.reason ?? '', /no_such_field/)
      await models.write('broken/config.pbtxt', config)
      await client.loadModel('broken')
      assert.equal(await client.isModelReady('broken'), true)
      await server.said(`registry of model 'broken': galatea.yaml:1:8: ${problem}`)
    },
  )

  await context.test('the index is as it was without ?details, and has more with it', async () => {
    const plain = (await json(server, '/v2/repository/index', post())) as { body: Record<string, unknown>[] }
    const rows = ['broken', 'digits', 'plain', 'words'].map((name) => ({ name, version: '1', state: 'READY' }))
    assert.deepEqual(plain.body, rows)
    assert.deepEqual(await json(server, '/v2/repository/index?x=y', post('{"ready":true}')), {
      status: 200,
      body: rows,
    })
    const detailed = (await json(server, '/v2/repository/index?details', post())) as { body: Record<string, unknown>[] }
    assert.deepEqual(
      detailed.body.map(({ name, version, state }) => ({ name, version, state })),
      rows,
    )
    const { loaded_at: loadedAt, ...words } = detailed.body.at(-1) ?? {}
    assert.match(String(loadedAt), /Z$/)
    assert.deepEqual(words, {
      name: 'words',
      version: '1',
      state: 'READY',
      content_hash: hashOf(['weights', 'words']),
      size_bytes: 5,
      file_count: 1,
      owner: 'text',
      description: 'Counts Words',
      tags: ['prod'],
      extra: { colour: 'blue' },
    })
  })

  await context.test('every path of it is in the OpenAPI document', async () => {
    const { body } = (await json(server, '/v2/openapi.json')) as { body: { paths: object } }
    const paths = Object.keys(body.paths).filter((name) => name.includes('registry'))
    assert.deepEqual(paths.sort(), [
      '/v2/models/{model}/registry',
      '/v2/models/{model}/registry/history',
      '/v2/models/{model}/versions/{version}/registry',
      '/v2/registry',
    ])
  })

  await context.test('what is said about a model can change without the model being loaded again', async () => {
    const before = (await client.modelRegistry('plain')).versions[0]?.loaded_at
    await models.write('plain/galatea.json', '{"owner":"late"}')
    await client.loadModel('plain')
    const after = await client.modelRegistry('plain')
    assert.deepEqual([after.owner, after.versions[0]?.loaded_at], ['late', before])
  })
})

test('the audit log has who loaded and unloaded what, by which protocol, and how it ended', async (context) => {
  const models = await repository(context)
  await models.model('m')
  await models.model('bad', '', 'backend: "no_such_backend"\nmax_batch_size: 0\n')
  const restricted = ['--http-restricted-api=model-repository:admin-key=s3cret', '--allow-model-uploads=true']
  const server = await serve(context, models, ...explicit, ...restricted)
  const headers = {
    'admin-key': 's3cret',
    'x-request-id': 'deploy\u00e9-1',
    traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
  }
  const client: HttpClient = createHttpClient({ url: server.url, headers })
  const content = { version: '1', content_hash: hashOf(['weights', 'm']) }
  const by = { by: 'http', address: '127.0.0.1', key: 'admin-key', request_id: 'deployé-1', trace_id: 'a'.repeat(32) }

  const atStart = (await models.lines(2)).map(steady).sort((a, b) => (String(a['model']) < String(b['model']) ? -1 : 1))
  assert.deepEqual(
    atStart.map(({ reason: _reason, ...line }) => line),
    [
      { action: 'load', model: 'bad', outcome: 'failed', by: 'start' },
      { action: 'load', model: 'm', versions: [content], outcome: 'ok', by: 'start' },
    ],
  )
  assert.match(String(atStart[0]?.['reason']), /unable to find backend library for backend 'no_such_backend'/)

  const refused = await fetch(`${server.url}/v2/models/m/registry/history`)
  assert.equal(refused.status, 403)
  assert.equal((await fetch(`${server.url}/v2/registry`)).status, 403)
  assert.equal((await fetch(`${server.url}/v2/models/m/registry`)).status, 403)

  await client.loadModel('m')
  await client.loadModel('m', { config: { backend: 'identity', max_batch_size: 4, input: [{ name: 'I', data_type: 'TYPE_FP32', dims: [1] }], output: [{ name: 'O', data_type: 'TYPE_FP32', dims: [1] }] } }) // prettier-ignore
  assert.equal((await client.modelRegistry('m')).override, 'config')
  await models.write('m/1/weights', 'changed')
  await client.loadModel('m')
  assert.equal((await client.modelRegistry('m')).override, undefined)
  await assert.rejects(client.loadModel('nobody'))
  await assert.rejects(client.loadModel('bad'))
  await client.unloadModel('m')
  const files = { '1/weights': Buffer.from('sent along'), 'galatea.json': Buffer.from('{"owner":"sender"}') }
  const sent = { backend: 'identity', max_batch_size: 8, input: [{ name: 'I', data_type: 'TYPE_FP32', dims: [1] }], output: [{ name: 'O', data_type: 'TYPE_FP32', dims: [1] }] } // prettier-ignore
  await client.loadModel('m', { config: sent, files })
  const uploaded = await client.modelRegistry('m')
  assert.deepEqual([uploaded.owner, uploaded.override], ['sender', 'files'])

  const changed = { version: '1', content_hash: hashOf(['weights', 'changed']) }
  const lines = (await models.lines(9)).slice(2).map(steady)
  assert.deepEqual(
    lines.map(({ reason: _reason, ...line }) => line),
    [
      { action: 'load', model: 'm', versions: [content], outcome: 'unchanged', ...by },
      { action: 'reload', model: 'm', versions: [content], outcome: 'ok', override: 'config', ...by },
      { action: 'reload', model: 'm', versions: [changed], outcome: 'ok', ...by },
      { action: 'load', model: 'nobody', outcome: 'failed', ...by },
      { action: 'load', model: 'bad', outcome: 'failed', ...by },
      { action: 'unload', model: 'm', versions: [changed], outcome: 'ok', ...by },
      { action: 'load', model: 'm', versions: [{ version: '1', content_hash: hashOf(['weights', 'sent along']) }], outcome: 'ok', override: 'files', ...by }, // prettier-ignore
    ],
  )
  assert.match(
    server.output,
    /loading 'm' from a configuration and 2 files that came with the request, in place of the repository's/,
  )

  const history = await client.modelHistory('m', { limit: 2 })
  assert.deepEqual(history.map(({ action, override }) => [action, override]), [['load', 'files'], ['unload', undefined]]) // prettier-ignore
  assert.ok(!server.output.includes('s3cret') && !(await readFile(models.audit, 'utf8')).includes('s3cret'))

  const grpc: GrpcClient = createGrpcClient({ url: server.grpcAddress })
  context.after(() => grpc.close())
  await grpc.unloadModel('m')
  const last = steady((await models.lines(10)).at(-1) ?? {})
  assert.deepEqual(
    [last['action'], last['by'], last['address'], last['key']],
    ['unload', 'grpc', '127.0.0.1', undefined],
  )
})

test('in poll mode the files are the ones who asked; history outlives a restart; SIGHUP opens the file anew', async (context) => {
  const models = await repository(context)
  await models.model('m')
  const server = await serve(context, models, '--model-control-mode=poll', '--repository-poll-secs=1')
  await models.write('m/1/weights', 'new')
  const content = (text: string): object => ({ version: '1', content_hash: hashOf(['weights', text]) })
  assert.deepEqual((await models.lines(2)).map(steady), [
    { action: 'load', model: 'm', versions: [content('m')], outcome: 'ok', by: 'start' },
    { action: 'reload', model: 'm', versions: [content('new')], outcome: 'ok', by: 'poll' },
  ])
  await rename(models.audit, `${models.audit}.1`)
  server.signal('SIGHUP')
  await rm(path.join(models.path, 'm'), { recursive: true })
  await until(async () => (await readFile(models.audit, 'utf8').catch(() => '')).includes('unload'), 'the unload')
  assert.deepEqual((await models.lines(1)).map(steady), [
    { action: 'unload', model: 'm', versions: [content('new')], outcome: 'ok', by: 'poll' },
  ])
  assert.equal((await models.lines(2, `${models.audit}.1`)).length, 2)
  assert.deepEqual((await server.stop()).code, 0)

  await models.model('m')
  const next = await serve(context, models)
  const { body } = (await json(next, '/v2/models/m/registry/history')) as { body: { events: { action: string }[] } }
  assert.deepEqual(
    body.events.map(({ action }) => action),
    ['load', 'unload'],
  )
})

test('an audit log that cannot be opened keeps the server from starting, and says which', async (context) => {
  const models = await repository(context)
  await models.model('m')
  const starting = startServerProcess(['--model-repository', models.path, '--audit-log', '/no/such/folder/audit'])
  await assert.rejects(starting, /failed to open audit log '\/no\/such\/folder\/audit'/)
})

// --access-config of a real server: keys made by the command, every form in which stock clients send them, permissions by model
// on every port, and a file that changes while the server runs.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import path from 'node:path'
import { test } from 'node:test'
import * as grpc from '@grpc/grpc-js'
import { createGrpcClient } from '../../src/client/node.ts'
import { until } from '../until.ts'
import { accessFolder, inferBody } from './access-fixture.ts'
import { reportPythonChecks } from './python-checks.ts'
import { startServerProcess } from './server-process.ts'

const rules = `
anonymous: { allow: [health] }
keys: keys.json
roles:
  caller: { allow: ["inference@vision-*", "inference@secre", "metadata@vision-*", "statistics@vision-*", "model-repository@vision-*", "metrics@vision-*"] }
  operator: { allow: ["*"], deny: [logging] }
grants:
  - { to: { key: "web-*" }, role: caller, tenant: web }
`

type Answer = { readonly status: number; readonly text: string; readonly headers: Headers }

type KeyAnswer = {
  readonly status: number
  readonly cache: string | null
  readonly key: string
  readonly id: string
  readonly name: string
  readonly revoked: readonly string[]
  readonly error: string
}

type Asked = { readonly method?: string; readonly body?: string; readonly headers?: Readonly<Record<string, string>> }

async function ask(url: string, key = '', init: Asked = {}): Promise<Answer> {
  const answer = await fetch(url, {
    ...init,
    headers: key === '' ? (init.headers ?? {}) : { authorization: `Bearer ${key}` },
  })
  return { status: answer.status, text: await answer.text(), headers: answer.headers }
}

/** Of the server, until somebody ends it. */
function watchHealth(address: string, key: string) {
  const client = new grpc.Client(address, grpc.credentials.createInsecure())
  const metadata = new grpc.Metadata()
  metadata.set('authorization', `Bearer ${key}`)
  const bytes = (message: Buffer): Buffer => message
  const call = client.makeServerStreamRequest('/grpc.health.v1.Health/Watch', bytes, bytes, Buffer.alloc(0), metadata)
  const begun = once(call, 'data')
  const ended = new Promise<grpc.status>((resolve) => {
    call.on('error', ({ code }: grpc.ServiceError) => resolve(code))
  })
  return { begun, ended, close: () => client.close() }
}

test('keys open what their roles allow, on every port, and nothing else', async (t) => {
  const folder = await accessFolder(rules, ['vision-a', 'secret'])
  t.after(() => folder.remove())
  const web = await folder.key('web-1')
  const boss = await folder.key('boss', '--role', 'operator')
  const old = await folder.key('web-old')
  await folder.keys('revoke', 'web-old')
  assert.equal((await stat(path.join(folder.root, 'keys.json'))).mode & 0o777, 0o600)
  const [accessLog, auditLog] = [path.join(folder.root, 'access.log'), path.join(folder.root, 'audit.log')]
  const torchserve = ['inference', 'management', 'metrics'].map((port) => `--torchserve-${port}-port=0`)
  const grpcPorts = ['inference', 'management'].map((port) => `--torchserve-grpc-${port}-port=0`)
  const logs = [`--access-log=${accessLog}`, `--audit-log=${auditLog}`]
  const server = await startServerProcess([...folder.flags, ...logs, '--allow-torchserve=true', ...torchserve, ...grpcPorts]) // prettier-ignore
  t.after(() => server.stop())
  const infer = (model: string, key: string, headers = {}): Promise<Answer> =>
    ask(`${server.url}/v2/models/${model}/infer`, key, { method: 'POST', body: inferBody(), headers })

  await t.test(
    'a refusal leaves its connection as it was: with a body at once, in pieces, and before HTTP/1.1',
    async () => {
      const socket = connect(server.port, '127.0.0.1')
      let text = ''
      socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
      const ended = once(socket, 'close')
      const head = (version: string, bytes: number): string =>
        `POST /v2/models/vision-a/infer HTTP/${version}\r\nHost: localhost\r\nContent-Length: ${bytes}\r\n\r\n`
      socket.write(`${head('1.1', 4)}abcd${head('1.1', 4)}efgh${head('1.1', 6)}abc`)
      await until(() => text.split('no credentials').length === 3, 'two refusals', { seen: () => text })
      socket.write(`def${head('1.0', 2)}xy`)
      await ended
      const heads = text.split('HTTP/1.1 401 Unauthorized').slice(1)
      assert.equal(heads.length, 4)
      assert.equal(new Set(heads.slice(0, 3)).size, 1)
      assert.deepEqual(heads.map((one) => one.includes('Connection: close')), [false, false, false, true]) // prettier-ignore
    },
  )

  await t.test('without credentials only health answers', async () => {
    assert.equal((await ask(`${server.url}/v2/health/ready`)).status, 200)
    const refused = await infer('vision-a', '')
    assert.equal(refused.status, 401)
    assert.equal(refused.text, '{"error":"no credentials: send Authorization or x-api-key"}')
    assert.equal(refused.headers.get('www-authenticate'), 'Bearer realm="galatea"')
    assert.equal((await ask(`http://${server.metricsAddress}/metrics`)).status, 401)
  })

  await t.test('a key is taken as Bearer, x-api-key and Basic', async () => {
    const [, id = '', secret = ''] = /^gal_([a-z0-9]+)_(.*)$/.exec(web) ?? []
    const basic = (pair: string): string => `Basic ${Buffer.from(pair).toString('base64')}`
    assert.equal((await infer('vision-a', web)).status, 200)
    for (const headers of [
      { 'x-api-key': web },
      { authorization: basic(`${id}:${secret}`) },
      { authorization: basic(`anybody:${web}`) },
    ]) {
      assert.equal((await infer('vision-a', '', headers)).status, 200, JSON.stringify(headers))
    }
    for (const headers of [{ 'x-api-key': `${web.slice(0, -1)}~` }, { authorization: basic(`${id}:x`) }]) {
      const wrong = await infer('vision-a', '', headers)
      assert.equal(wrong.status, 401)
      assert.match(wrong.text, /wrong credentials/)
    }
    assert.equal((await infer('vision-a', old)).status, 401)
  })

  await t.test('a model that the caller may not use is refused, and not shown', async () => {
    const refused = await infer('secret', web)
    assert.equal(refused.status, 403)
    assert.match(refused.text, /'web-1' may not use 'inference' of model 'secret'.*'inference@secret'/)
    assert.equal((await infer('secret', boss)).status, 200)
    const index = await ask(`${server.url}/v2/repository/index`, web, { method: 'POST' })
    assert.deepEqual(
      (JSON.parse(index.text) as { name: string }[]).map(({ name }) => name),
      ['vision-a'],
    )
    for (const target of ['/v2/models/stats', '/v2/registry', '/v1/models', '/v2/openapi.json']) {
      const [seen, all] = [await ask(server.url + target, web), await ask(server.url + target, boss)]
      assert.equal(seen.status, 200, target)
      assert.ok(seen.text.includes('vision-a') && !seen.text.includes('secret'), target)
      assert.ok(all.text.includes('secret'), target)
    }
    const metrics = await ask(`http://${server.metricsAddress}/metrics`, web)
    assert.ok(metrics.text.includes('model="vision-a"') && !metrics.text.includes('model="secret"'))
    const ofTorch = await ask(`http://${server.furtherAddress('TorchServe metrics')}/metrics`, web)
    assert.ok(ofTorch.text.includes('model_name="vision-a"') && !ofTorch.text.includes('secret'))
    assert.equal((await ask(`${server.url}/v2/logging`, boss)).status, 403)
    assert.equal((await ask(`${server.url}/v2/trace/setting`, web)).status, 403)
  })

  await t.test('the health of the server is told to everybody, the models in it to who may see them', async () => {
    const modelsFor = async (key: string): Promise<string[]> => {
      const { models } = JSON.parse((await ask(`${server.url}/v2/health/detail`, key)).text) as { models: { name: string }[] } // prettier-ignore
      return models.map(({ name }) => name).sort()
    }
    assert.deepEqual(await modelsFor(''), [])
    assert.deepEqual(await modelsFor(web), ['vision-a'])
    assert.deepEqual(await modelsFor(boss), ['secret', 'vision-a'])
  })

  await t.test('an upload that names no model is for the only one that its caller may use', async () => {
    const upload = (key: string): Promise<Answer> => ask(`${server.url}/predict`, key, { method: 'POST', body: 'x' })
    assert.match((await upload(web)).text, /model 'vision-a' does not say how an upload becomes its input/)
    assert.match((await upload(boss)).text, /the server has 2 models: name one/)
  })

  await t.test('the load of the server is told to everybody, that of models to who may see all of them', async () => {
    const loadFor = async (key: string): Promise<string> => {
      const format = { 'endpoint-load-metrics-format': 'text' }
      const headers = key === '' ? format : { ...format, authorization: `Bearer ${key}` }
      const answer = await fetch(`${server.url}/v2/health/ready`, { headers })
      return answer.headers.get('endpoint-load-metrics') ?? ''
    }
    await until(async () => (await loadFor(boss)).includes('pressure.secret='), 'a report of the load')
    for (const key of ['', web]) {
      const load = await loadFor(key)
      assert.ok(load.includes('application_utilization=') && !load.includes('pressure.'), load)
    }
  })

  await t.test('a name that is nearly right is told the models that the caller may use, and no others', async () => {
    const unknown = (model: string): string => `Request for unknown model: '${model}' is not found`
    const told = async (model: string, key: string): Promise<string> =>
      (JSON.parse((await infer(model, key)).text) as { readonly error: string }).error
    assert.equal(await told('vision-b', web), `${unknown('vision-b')}; did you mean 'vision-a'?`)
    assert.equal(await told('secre', web), unknown('secre'))
    assert.equal(await told('secre', boss), `${unknown('secre')}; did you mean 'secret'?`)
  })

  await t.test('gRPC follows the same rules', async () => {
    const inputs = { INPUT0: { shape: [1, 1], data: new Float32Array(1) } }
    const outcome = async (key: string, model: string): Promise<string> => {
      const headers = key === '' ? {} : { authorization: `Bearer ${key}` }
      await using client = createGrpcClient({ url: `http://${server.grpcAddress}`, headers })
      try {
        await client.infer(model, inputs as never)
        return 'OK'
      } catch (reason) {
        return String((reason as { code?: unknown }).code ?? reason)
      }
    }
    assert.deepEqual(
      [await outcome('', 'vision-a'), await outcome(web, 'vision-a'), await outcome(web, 'secret')],
      ['FORBIDDEN', 'OK', 'FORBIDDEN'],
    )
  })

  await t.test('keys are made, listed, rotated and revoked over HTTP, and count at once', async () => {
    const keys = `${server.url}/v2/access/keys`
    const change = async (path: string, body: object, by = boss): Promise<KeyAnswer> => {
      const answer = await ask(keys + path, by, { method: 'POST', body: JSON.stringify(body) })
      return {
        ...(JSON.parse(answer.text) as KeyAnswer),
        status: answer.status,
        cache: answer.headers.get('cache-control'),
      }
    }
    assert.equal((await change('', { name: 'web-9' }, web)).status, 403)
    assert.equal((await ask(keys, web)).status, 403)
    const made = await change('', { name: 'web-9', expires: '90d', addresses: ['127.0.0.0/8', '::1'] })
    assert.deepEqual([made.status, made.cache, made.name], [200, 'no-store', 'web-9'])
    assert.equal((await infer('vision-a', made.key)).status, 200)
    const rotated = await change(`/${made.id}/rotate`, { overlap: '0h' })
    assert.equal((await infer('vision-a', made.key)).status, 401)
    assert.equal((await infer('vision-a', rotated.key)).status, 200)
    const text = (await ask(keys, boss)).text
    const rows = (JSON.parse(text) as { keys: { id: string; state: string }[] }).keys
    const stateOf = (id: string): string | undefined => rows.find((row) => row.id === id)?.state
    assert.deepEqual([stateOf(made.id), stateOf(rotated.id)], ['expired', 'active'])
    assert.ok(!text.includes(rotated.key.slice(15)) && !text.includes('hash'))
    // Two changes at a time do not get into each other's way.
    const both = await Promise.all([change('/web-9/revoke', {}), change('', { name: 'web-8' })])
    assert.deepEqual(both[0].revoked, [rotated.id])
    assert.equal((await infer('vision-a', rotated.key)).status, 401)
    assert.equal((await infer('vision-a', both[1].key)).status, 200)
    const wrong: [string, object, number, RegExp][] = [
      ['', { name: 'a b' }, 400, /the name must be 1 to 64 letters/],
      ['', { name: 'web-7', role: 'king' }, 400, /there is no role 'king'; there is caller, operator/],
      ['', { name: 'web-7', expire: '1d' }, 400, /'expire' is not a key that is known; did you mean 'expires'/],
      ['', { name: 'web-7', expires: 'soon' }, 400, /'expires' must be a time/],
      ['/nobody/rotate', {}, 404, /there is no key 'nobody'/],
      ['/web-9/revoke', {}, 400, /every key of 'web-9' is revoked or expired/],
    ]
    for (const [path_, body, status, message] of wrong) {
      const refused = await change(path_, body)
      assert.equal(refused.status, status, JSON.stringify(refused))
      assert.match(refused.error, message)
    }
    await until(async () => /"access.key.created".*by 'boss'/.test(await readFile(auditLog, 'utf8')), 'the audit')
  })

  await t.test(
    'what lasts ends when its key is revoked: a feed, a stream of inferences, and a watch of health',
    async () => {
      const [watcher, streamer] = [await folder.key('watcher', '--role', 'operator'), await folder.key('web-stream')]
      await until(async () => (await ask(`${server.url}/v2/live/history`, watcher)).status === 200, 'the new keys')
      const feed = await fetch(`${server.url}/v2/live`, { headers: { authorization: `Bearer ${watcher}` } })
      assert.equal(feed.status, 200)
      const headers = { authorization: `Bearer ${streamer}` }
      await using client = createGrpcClient({ url: `http://${server.grpcAddress}`, headers })
      const stream = await client.openStream()
      const inputs = { INPUT0: { shape: [1, 1], data: new Float32Array(1) } } as never
      await stream.send('vision-a', inputs)
      const answers = stream[Symbol.asyncIterator]()
      assert.equal((await answers.next()).value?.error ?? null, null)
      const watched = watchHealth(server.grpcAddress, streamer)
      t.after(() => watched.close())
      await watched.begun
      await folder.keys('revoke', 'watcher')
      await folder.keys('revoke', 'web-stream')
      await assert.rejects(answers.next(), { code: 'FORBIDDEN' })
      assert.equal(await watched.ended, grpc.status.UNAUTHENTICATED)
      const reader = (feed.body as ReadableStream<Uint8Array>).getReader()
      while (!(await reader.read()).done);
    },
  )

  await t.test("NVIDIA's clients", async (inner) => {
    await reportPythonChecks(inner, 'access_client.py', `${server.address} ${server.grpcAddress} ${web} ${boss}`)
  })

  await t.test('a changed file counts within seconds, a broken one changes nothing', async () => {
    await folder.write(rules.replace('roles:', 'rolls:'))
    await server.said("'rolls' is not a key that is known; did you mean 'roles'?")
    assert.equal((await infer('vision-a', web)).status, 200)
    await folder.write(rules.replaceAll('vision-*', 'other-*'))
    await until(async () => (await infer('vision-a', web)).status === 403, 'the new rules')
    await folder.write(rules)
    await until(async () => (await infer('vision-a', web)).status === 200, 'the old rules')
    await folder.keys('revoke', web)
    await until(async () => (await infer('vision-a', web)).status === 401, 'the key to be revoked')
    await until(async () => (await readFile(auditLog, 'utf8')).includes('"access.key.revoked"'), 'the audit of the key')
    const audit = await readFile(auditLog, 'utf8')
    assert.match(audit, /"action":"access.refused".*inference@secret: 'web-1' may not use/)
    await until(
      async () => (await readFile(accessLog, 'utf8')).includes('"caller":"web-1","tenant":"web"'),
      'the access log',
    )
    const [, secret = ''] = /_([^_].*)$/.exec(web.slice(14)) ?? []
    assert.ok(secret.length > 20 && !(audit + (await readFile(accessLog, 'utf8')) + server.output).includes(secret))
  })
})

test('a server does not start with a file that has a mistake, and names its line', async (t) => {
  const folder = await accessFolder('anonymous: { alow: [health] }\n', ['vision-a'])
  t.after(() => folder.remove())
  await assert.rejects(
    startServerProcess(folder.flags),
    /access.yaml:1:20: 'anonymous.alow' is not a key that is known; did you mean 'allow'/,
  )
})

// Limits of tenants in front of a real server: what clients see over HTTP and gRPC, what is counted, and what it costs.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../until.ts'
import { statusCodes } from '../../src/transport/grpc/grpc-status.ts'
import { createGrpcClient } from '../../src/client/node.ts'
import { accessFolder, inferBody } from './access-fixture.ts'
import { startServerProcess } from './server-process.ts'

const rules = `
anonymous: { allow: [health] }
keys: keys.json
roles:
  caller: { allow: [inference, metadata, jobs] }
  operator: { allow: ["*"] }
tenants:
  few: { limits: [{ requests: 5/1h }] }
  rows: { limits: [{ inferences: 10/1h }, { inferences: 100/month }] }
  bytes: { limits: [{ bytes: 500/1h }] }
  lines: { limits: [{ inferences: 3/1h }] }
  chat: { limits: [{ tokens: 1000/1h }, { requests: 2/1h }] }
`

test('tenants are held to their limits, each by itself, and their use is counted', async (t) => {
  const folder = await accessFolder(rules, ['m', 'priced'])
  await writeFile(join(folder.root, 'models/priced/galatea.yaml'), 'cost: { instance_hour: 7200 }\n')
  const key = (name: string): Promise<string> => folder.key(name, '--role', 'caller', '--tenant', name)
  const [few, rows, bytes, free] = [await key('few'), await key('rows'), await key('bytes'), await key('free')]
  const [boss, chat, ofLines] = [await folder.key('boss', '--role', 'operator'), await key('chat'), await key('lines')]
  const state = `--state-dir=${folder.root}/state`
  const server = await startServerProcess([
    ...folder.flags,
    '--cost-per-hour=3.6',
    '--currency=EUR',
    '--allow-jobs=true',
    state,
  ])
  t.after(async () => {
    // The server writes its state when it stops.
    await server.stop()
    await folder.remove()
  })
  const infer = (credential: string, count = 1): Promise<Response> =>
    fetch(`${server.url}/v2/models/m/infer`, {
      method: 'POST',
      body: inferBody(count),
      headers: { 'x-api-key': credential },
    })
  const get = async (path: string, credential: string): Promise<{ status: number; json: Record<string, unknown> }> => {
    const answer = await fetch(server.url + path, { headers: { 'x-api-key': credential } })
    return { status: answer.status, json: (await answer.json()) as Record<string, unknown> }
  }

  await t.test('the request over the limit gets 429, with the time to wait in every form', async () => {
    for (let i = 0; i < 5; i++) {
      const answer = await infer(few)
      assert.equal(answer.status, 200)
      assert.equal(answer.headers.get('ratelimit-policy'), '"requests";q=5;w=3600')
      assert.match(answer.headers.get('ratelimit') ?? '', new RegExp(`^"requests";r=${4 - i};t=\\d+$`))
    }
    const refused = await infer(few)
    assert.equal(refused.status, 429)
    assert.equal(await refused.text(), `{"error":"rate limit 'requests' of tenant 'few' reached: 5 per 1h"}`)
    assert.ok(Number(refused.headers.get('retry-after')) > 600)
    assert.match(refused.headers.get('ratelimit') ?? '', /^"requests";r=0;t=\d+$/)
    assert.equal((await infer(free)).status, 200)
    assert.equal((await get('/v2/access/me', few)).status, 200)
  })

  await t.test("OpenAI's paths tell limits in OpenAI's form too, in answers and in refusals", async () => {
    const headers = { authorization: `Bearer ${chat}` }
    const left: (string | null)[][] = []
    for (const expected of [404, 404, 429]) {
      const body = '{"model":"nobody","prompt":"x"}'
      const answer = await fetch(`${server.url}/v1/completions`, { method: 'POST', body, headers })
      await answer.text()
      assert.equal(answer.status, expected)
      const one = (name: string): string | null => answer.headers.get(`x-ratelimit-${name}`)
      left.push([one('limit-requests'), one('remaining-requests'), one('limit-tokens'), one('remaining-tokens')])
      assert.match(one('reset-requests') ?? '', /^[1-9]\d*s$/)
    }
    assert.deepEqual(left, [['2', '1', '1000', '1000'], ['2', '0', '1000', '1000'], ['2', '0', '1000', '1000']]) // prettier-ignore
  })

  await t.test('rows and bytes are counted, over HTTP with and without a length', async () => {
    assert.equal((await infer(rows, 8)).status, 200)
    const refused = await infer(rows, 3)
    assert.equal(refused.status, 429)
    assert.match(await refused.text(), /rate limit 'inferences' of tenant 'rows' reached: 10 per 1h/)
    assert.equal((await infer(rows, 2)).status, 200)
    const chunked = (): Promise<Response> =>
      fetch(`${server.url}/v2/models/m/infer`, {
        method: 'POST',
        body: new Blob([inferBody(8), ' '.repeat(400)]).stream(),
        duplex: 'half',
        headers: { 'x-api-key': bytes },
      } as RequestInit)
    assert.equal((await chunked()).status, 200)
    assert.equal((await infer(bytes)).status, 429)
  })

  await t.test('gRPC gets RESOURCE_EXHAUSTED and how long to wait', async () => {
    const { Client, credentials, Metadata } = await import('@grpc/grpc-js')
    const client = new Client(server.grpcAddress, credentials.createInsecure())
    const metadata = new Metadata()
    metadata.set('x-api-key', few)
    const error = await new Promise<{ code: number; metadata: InstanceType<typeof Metadata> }>((resolve) => {
      const pass = (value: Buffer): Buffer => value
      client.makeUnaryRequest(
        '/inference.GRPCInferenceService/ServerMetadata',
        pass,
        pass,
        Buffer.alloc(0),
        metadata,
        (reason) => resolve(reason as never),
      )
    })
    assert.equal(error.code, statusCodes.RESOURCE_EXHAUSTED)
    assert.ok(Number(error.metadata.get('grpc-retry-pushback-ms')[0]) > 600_000)
    assert.ok(Number(error.metadata.get('retry-after')[0]) > 600)
    client.close()
    await using stream = createGrpcClient({ url: `http://${server.grpcAddress}`, headers: { 'x-api-key': rows } })
    await assert.rejects(
      stream.infer('m', { INPUT0: { shape: [1, 1], data: new Float32Array(1) } } as never),
      /inferences/,
    )
  })

  await t.test('the lines of a job count as calls of the tenant who made the job, and wait at its limit', async () => {
    const lines = Array.from({ length: 5 }, () => JSON.parse(inferBody()) as unknown)
    const post = (path: string, body: string): Promise<Response> => fetch(server.url + path, { method: 'POST', body, headers: { 'x-api-key': ofLines } }) // prettier-ignore
    const { id } = (await (await post('/v2/jobs', JSON.stringify({ model: 'm', input: { lines } }))).json()) as { id: string } // prettier-ignore
    const job = async (): Promise<Record<string, string | number>> =>
      (await get(`/v2/jobs/${id}`, ofLines)).json as Record<string, string | number>
    await until(async () => {
      const { done, waits_because: why } = await job()
      return done === 3 && String(why).includes("rate limit 'inferences' of tenant 'lines'")
    }, 'three lines, and a wait')
    await post(`/v2/jobs/${id}/cancel`, '')
    const [used] = (await get('/v2/access/usage', ofLines)).json['tenants'] as Record<string, unknown>[]
    assert.deepEqual([used?.['tenant'], used?.['inferences']], ['lines', 3])
  })

  await t.test('the lines of a job fail once the key of its author is revoked', async () => {
    const leaver = await folder.key('leaver', '--role', 'caller')
    await until(async () => (await get('/v2/access/me', leaver)).status === 200, 'the new key')
    const lines = Array.from({ length: 20_000 }, () => inferBody())
    const post = { method: 'POST', body: JSON.stringify({ model: 'm', input: { lines }, concurrency: 1 }), headers: { 'x-api-key': leaver } } // prettier-ignore
    const { id } = (await (await fetch(`${server.url}/v2/jobs`, post)).json()) as { id: string }
    // Over the API a change counts at once, long before the last line.
    const revoked = await fetch(`${server.url}/v2/access/keys/leaver/revoke`, { method: 'POST', headers: { 'x-api-key': boss } }) // prettier-ignore
    assert.equal(revoked.status, 200)
    await until(async () => (await get(`/v2/jobs/${id}`, ofLines)).json['state'] === 'DONE', 'the end of the job')
    const answers = await (await fetch(`${server.url}/v2/jobs/${id}/output`, { headers: { 'x-api-key': ofLines } })).text() // prettier-ignore
    assert.match(answers.trim().split('\n').at(-1) ?? '', /'leaver' may not use 'inference' of model 'm'/)
  })

  await t.test('use and cost are told to whom they concern', async () => {
    const own = (await get('/v2/access/usage', rows)).json['tenants'] as Record<string, unknown>[]
    assert.equal(own.length, 1)
    assert.deepEqual(
      [own[0]?.['tenant'], own[0]?.['requests'], own[0]?.['inferences'], own[0]?.['running']],
      ['rows', 2, 10, 0],
    )
    assert.equal((await get('/v2/access/usage?tenant=few', rows)).status, 403)
    const all = (await get('/v2/access/usage', boss)).json['tenants'] as Record<string, unknown>[]
    assert.ok(['few', 'rows', 'bytes', 'free'].every((name) => all.some((row) => row['tenant'] === name)))
    assert.equal((await get('/v2/cost?by=tenant', rows)).status, 403)
    for (const by of ['model', 'tenant']) {
      const { json } = await get(`/v2/cost?by=${by}`, boss)
      assert.deepEqual([json['currency'], json['per_hour']], ['EUR', 3.6])
      const total = (json['rows'] as { cost: number }[]).reduce((sum, { cost }) => sum + cost, 0)
      assert.ok(Math.abs(total - (json['cost'] as number)) < 1e-3 * total, `${total}`)
      const [price] = json['prices'] as { model: string; instance_hour: number; instances: number }[]
      assert.deepEqual([price?.model, price?.instance_hour], ['priced', 7200])
      // Nobody uses the model: by model it pays for itself, by tenant all share it.
      const own = (json['rows'] as { model?: string; cost: number }[]).find((row) => row.model === 'priced')
      const ofInstances = 2 * (price?.instances ?? 0) * (json['seconds'] as number)
      if (by === 'model') assert.ok(Math.abs((own?.cost ?? 0) - ofInstances) < 1e-3 * ofInstances)
      assert.ok(total > ofInstances)
    }
    const day = '2001-01-01'
    const today = await get(`/v2/access/usage?tenant=rows&from=${day}`, boss)
    const [used] = today.json['tenants'] as { requests: number; inferences: number }[]
    assert.deepEqual([used?.requests, used?.inferences], [2, 10])
    const before = await get(`/v2/access/usage?to=${day}`, boss)
    assert.deepEqual(before.json['tenants'], [])
    for (const by of ['model', 'tenant']) {
      const { json } = await get(`/v2/cost?by=${by}&from=${day}&to=2999-01-01T00:00:00Z`, boss)
      assert.ok((json['rows'] as { inferences: number }[]).reduce((sum, row) => sum + row.inferences, 0) >= 10, by)
      assert.ok((json['seconds'] as number) > 0)
    }
    for (const wrong of ['from=yesterday', 'from=2026-02-01&to=2026-01-01', 'to=1e3', `from=${'9'.repeat(500)}`]) {
      assert.equal((await get(`/v2/cost?${wrong}`, boss)).status, 400, wrong)
    }
    const page = await (
      await fetch(`http://${server.metricsAddress}/metrics`, { headers: { 'x-api-key': boss } })
    ).text()
    assert.match(page, /galatea_tenant_requests_total\{model="m",tenant="few"\} 5/)
    assert.match(page, /galatea_tenant_inferences_total\{model="m",tenant="rows"\} 10/)
    assert.match(page, /galatea_tenant_refused_total\{tenant="few"\} [12]/)
  })

  await t.test('what was used, and of a quota, outlives kill -9, and rates begin anew', async () => {
    for (const file of ['use-of-tenants.json', 'use-of-models.json', 'quotas.json']) {
      await until(() => existsSync(join(folder.root, 'state/access', file)), `the server keeps ${file}`)
    }
    server.signal('SIGKILL')
    await server.exited
    const next = await startServerProcess([...folder.flags, state, '--cost-per-hour=3.6'])
    t.after(() => next.stop())
    const answer = await fetch(`${next.url}/v2/access/usage`, { headers: { 'x-api-key': rows } })
    const [own] = ((await answer.json()) as { tenants: { limits: { period: string; left: number }[] }[] }).tenants
    assert.deepEqual(
      own?.limits.map(({ period, left }) => [period, left]),
      [
        ['1h', 10],
        ['month', 90],
      ],
    )
    const ask = async (path: string): Promise<Record<string, unknown>> =>
      (await (await fetch(next.url + path, { headers: { 'x-api-key': boss } })).json()) as Record<string, unknown>
    const { tenants } = await ask('/v2/access/usage?tenant=rows&from=2001-01-01')
    assert.deepEqual([(tenants as { inferences: number }[])[0]?.inferences], [10])
    for (const by of ['model', 'tenant']) {
      const { rows: costs } = await ask(`/v2/cost?by=${by}&from=2001-01-01`)
      assert.ok((costs as { inferences: number }[]).reduce((sum, row) => sum + row.inferences, 0) >= 10, by)
    }
  })
})

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startHttpFixture, type HttpFixture } from '../../../test/conformance/http-fixture.ts'
import { ServerError } from '../../base/server-error.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import { inject } from '../../../test/fakes/injected-request.ts'

const config =
  'input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }'
let fixture: HttpFixture
before(async () => {
  fixture = await startHttpFixture(
    {},
    {
      moody: {
        config,
        run: (request) => {
          request.computeStartNs = 1
          if (request.id === 'fail') request.fail(new ServerError('INTERNAL', 'broken'))
          else request.respond(InferenceResponse.of(request.inputs))
        },
      },
    },
  )
})
after(() => fixture.close())

async function send(method: string, path: string, body = ''): Promise<{ status: number; body: unknown }> {
  const answer = await inject(fixture.frontend, { method, path, body })
  return { status: answer.status, body: JSON.parse(answer.body.toString()) as unknown }
}

const infer = (id: string) =>
  send(
    'POST',
    '/v2/models/moody/infer',
    JSON.stringify({ id, inputs: [{ name: 'X', shape: [1], datatype: 'INT32', data: [1] }] }),
  )

type Stats = {
  name: string
  version: string
  inference_count: number
  execution_count: number
  inference_stats: Record<string, { count: number }>
}
const statsAt = async (path: string): Promise<Stats[]> =>
  ((await send('GET', path)).body as { model_stats: Stats[] }).model_stats

test('statistics count what was asked of the model, refused requests not at all', async () => {
  await infer('')
  await infer('fail')
  await infer('')
  assert.equal((await send('POST', '/v2/models/moody/infer', '{"inputs":[]}')).status, 400)
  const [stats] = await statsAt('/v2/models/moody/versions/1/stats')
  assert.equal(stats?.inference_count, 2)
  assert.equal(stats.execution_count, 3)
  assert.equal(stats.inference_stats['success']?.count, 2)
  assert.equal(stats.inference_stats['fail']?.count, 1)
})

test('without a version all that serve are listed, without a model all models by name', async () => {
  const versions = await statsAt('/v2/models/versions_all/stats')
  assert.deepEqual(
    versions.map(({ version }) => version),
    ['1', '2', '10'],
  )
  const names = (await statsAt('/v2/models/stats')).map(({ name }) => name)
  assert.deepEqual(names, names.toSorted())
  assert.ok(names.includes('moody') && names.includes('versions_all'))
})

test('unknown models and versions are refused in Triton’s words', async () => {
  assert.deepEqual(await send('GET', '/v2/models/nobody/stats'), {
    status: 400,
    body: { error: "requested model 'nobody' is not available" },
  })
  assert.deepEqual(await send('GET', '/v2/models/moody/versions/9/stats'), {
    status: 400,
    body: { error: "requested model version is not available for model 'moody'" },
  })
})

test('trace settings of a model that does not serve are refused', async () => {
  assert.deepEqual(await send('GET', '/v2/models/nobody/trace/setting'), {
    status: 400,
    body: { error: 'Request for unknown model : nobody' },
  })
  assert.equal((await send('POST', '/v2/models/moody/trace/setting', '{"trace_rate":"3"}')).status, 200)
  const settings = await send('GET', '/v2/models/moody/trace/setting')
  assert.equal((settings.body as Record<string, unknown>)['trace_rate'], '3')
})

test('a server whose log belongs to somebody else says so', async () => {
  assert.deepEqual(await send('GET', '/v2/logging'), {
    status: 501,
    body: { error: 'this server has no log settings' },
  })
})

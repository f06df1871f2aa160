import assert from 'node:assert/strict'
import { test } from 'node:test'

import { startHttpFixture } from '../../../test/conformance/http-fixture.ts'
import { apiNames, type ApiName } from '../../access/api-name.ts'
import { inject } from '../../../test/fakes/injected-request.ts'

const model = '/v2/models/fail'
const versioned = `${model}/versions/1`
const kserve1 = '/v1/models/fail'
const region = '/v2/systemsharedmemory/region/r'
const cudaRegion = '/v2/cudasharedmemory/region/r'

/** Every path of the route table, with and without its optional parts. */
const paths: Readonly<Record<ApiName, readonly string[]>> = {
  health: ['/v2/health/live', '/v2/health/ready', `${model}/ready`, `${versioned}/ready`, kserve1],
  metadata: ['/v2', '/v2/openapi.json', model, versioned, '/v1/models'],
  inference: [
    ...[model, versioned].flatMap((base) => [`${base}/infer`, `${base}/generate`, `${base}/generate_stream`]),
    `${kserve1}:predict`,
  ],
  'shared-memory': [
    ...['/v2/systemsharedmemory', region, '/v2/cudasharedmemory', cudaRegion].flatMap((base) => [
      `${base}/status`,
      `${base}/unregister`,
    ]),
    `${region}/register`,
    `${cudaRegion}/register`,
  ],
  'model-config': [`${model}/config`, `${versioned}/config`],
  'model-repository': [
    '/v2/repository/index',
    '/v2/repository/models/fail/load',
    '/v2/repository/models/fail/unload',
    '/v2/repository/other/index',
    '/v2/repository/other/models/fail/load',
    '/v2/repository/other/models/fail/unload',
  ],
  statistics: ['/v2/models/stats', `${model}/stats`, `${versioned}/stats`],
  trace: ['/v2/trace/setting', `${model}/trace/setting`],
  logging: ['/v2/logging'],
  rollouts: [
    '/v2/rollouts',
    '/v2/rollouts/r',
    '/v2/rollouts/r/pause',
    '/v2/rollouts/r/events',
    '/v2/rollouts/r/report',
  ],
  alerts: ['/v2/alerts'],
  jobs: ['/v2/jobs', '/v2/jobs/some', '/v2/jobs/some/output', '/v2/jobs/some/pause'],
}

/** The same path as other clients write it. */
const spellings = (path: string): string[] => [path, `${path}?a=b`, `http://host${path}`]

for (const api of apiNames) {
  test(`every path of '${api}' and every spelling of it is closed without its header, and no other path is`, async () => {
    const fixture = await startHttpFixture({ restrictedApis: [{ apis: [api], key: 'k', value: 's3cret' }] })
    for (const [name, list] of Object.entries(paths)) {
      for (const path of list.flatMap(spellings)) {
        for (const method of ['GET', 'POST']) {
          for (const headers of [[], [['k', 'S3cret']], [['K', 's3cret.']]] as [string, string][][]) {
            const { status } = await inject(fixture.frontend, { method, path, headers })
            assert.equal(status === 403, name === api, `${method} ${path} answered ${status}`)
          }
          const opened = await inject(fixture.frontend, { method, path, headers: [['K', 's3cret']] })
          assert.notEqual(opened.status, 403, `${method} ${path}`)
        }
      }
    }
    await fixture.close()
  })
}

test('every spelling of a path of the OpenAI API is closed without the header of its group', async () => {
  const apis = ['inference', 'embedding', 'model-repository']
  const fixture = await startHttpFixture({
    hasOpenAi: true,
    openAiRestrictedApis: [{ apis, key: 'k', value: 's3cret' }],
  })
  const groups = ['chat/completions', 'completions', 'responses', 'embeddings', 'models', 'models/fail', 'files/f', 'batches/b/cancel'] // prettier-ignore
  for (const path of groups.flatMap((group) => spellings(`/v1/${group}`))) {
    for (const method of ['GET', 'POST']) {
      assert.equal((await inject(fixture.frontend, { method, path })).status, 401, `${method} ${path}`)
      const { status } = await inject(fixture.frontend, { method, path, headers: [['K', 's3cret']] })
      assert.notEqual(status, 401, `${method} ${path}`)
    }
  }
  await fixture.close()
})

test('every path is described in the OpenAPI document', async () => {
  const fixture = await startHttpFixture()
  const { body } = await inject(fixture.frontend, { method: 'GET', path: '/v2/openapi.json' })
  const described = Object.keys((JSON.parse(body.toString()) as { paths: object }).paths)
  const patterns = described.map((path) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`))
  for (const path of Object.values(paths).flat()) {
    assert.ok(
      patterns.some((pattern) => pattern.test(path)),
      path,
    )
  }
  await fixture.close()
})

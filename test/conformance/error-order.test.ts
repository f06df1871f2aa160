// What the real Triton 2.51.0 says first where a request has two mistakes, and the content type of errors that an ensemble
// finds as it runs.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { exchange, type HttpAnswer } from './golden/http-exchange.ts'
import { startHttpFixture, type HttpFixture } from './http-fixture.ts'

let fixture: HttpFixture
let port = 0

const ensemble = {
  config: `platform: "ensemble" input { name: "C" data_type: TYPE_INT32 dims: [ 1 ] }
    output { name: "R" data_type: TYPE_INT32 dims: [ 1 ] }
    ensemble_scheduling { step { model_name: "fail" model_version: -1
      input_map { key: "CODE" value: "C" } output_map { key: "OUT" value: "R" } } }`,
}

before(async () => {
  fixture = await startHttpFixture({}, { failing: ensemble })
  port = (await fixture.frontend.listen()).port
})
after(() => fixture.close())

const post = (path: string, body: string): Promise<HttpAnswer> => exchange(port, { method: 'POST', path, body })

test('a load request that is not JSON is told before the mode that forbids loads', async () => {
  const { status, body } = await post('/v2/repository/models/add_sub/load', '{')
  assert.equal(status, 500)
  assert.match(String(body), /failed to parse the request JSON buffer/)
  const refused = await post('/v2/repository/models/add_sub/load', '{}')
  assert.deepEqual(
    [refused.status, refused.body],
    [503, '{"error":"explicit model load / unload is not allowed if polling is enabled"}'],
  )
})

test('an error of a step is text/plain, as one of a model', async () => {
  const inputs = [{ name: 'C', shape: [1], datatype: 'INT32', data: [4] }]
  const { status, headers } = await post('/v2/models/failing/infer', JSON.stringify({ inputs }))
  assert.deepEqual([status, headers?.['content-type']], [400, 'text/plain'])
})

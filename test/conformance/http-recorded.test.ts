// What Triton Inference Server 2.51.0 answered to requests, recorded case by case; the same requests over a real socket
// must get the same status, headers and bytes. The models behind them are in http-fixture.ts.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { httpViews } from './golden/corpus-views.ts'
import { exchange, type HttpAnswer } from './golden/http-exchange.ts'
import { startHttpFixture, type HttpFixture } from './http-fixture.ts'

/** Where Galatea answers otherwise, and why. */
const differences: Readonly<Record<string, string>> = {
  'json-echo-FP64-2': "Triton's JSON reader takes some doubles one bit off; here they are read exactly",
  'json-echo-FP64-3': "Triton's JSON reader takes some doubles one bit off; here they are read exactly",
  'forward-http-empty': 'Triton reads an empty value after `name: ` as one space; here it is empty',
  'binary-bytes-truncated': "the text of Triton's Python backend, which here has no part in the matter",
}

/** Triton prints the last digit of some doubles one off the shortest text that reads back the same; values are equal. */
const comparedByValue: ReadonlySet<string> = new Set([
  'json-echo-FP32-3',
  'json-echo-FP32-4',
  'binary-in-json-out-FP32',
])

const groups = [
  'server',
  'model-metadata',
  'model-errors',
  'version-policy',
  'compression',
  'header-forwarding',
  'infer-json',
  'infer-json-edge',
  'infer-errors',
  'infer-parameters',
  'infer-binary',
  'classification',
]
/** Cases of the metrics port, of statistics, and of models that the fixture does not have. */
const elsewhere = [
  'compress-generate-request',
  'server-metrics-other-path',
  'server-metrics-post',
  'metadata-path-unknown-stats',
  'metadata-post-stats',
  'model-error-09',
  'model-error-11',
  'model-error-16',
  'model-error-18',
  'metadata-auto_named',
  'metadata-config_full',
  'version-versions_all-2-config',
  'version-versions_all-10-config',
  'version-versions_default-10-config',
]
const cases = httpViews(groups, elsewhere).filter(
  ({ group, repository }) => group !== 'model-metadata' || repository === 'base',
)

let plain: HttpFixture
let forwarding: HttpFixture
const ports = new Map<HttpFixture, number>()

before(async () => {
  plain = await startHttpFixture({ hasKserveV1: false })
  forwarding = await startHttpFixture({ headerForwardPattern: '(fwd_.*|x-case)' })
  for (const fixture of [plain, forwarding]) ports.set(fixture, (await fixture.frontend.listen()).port)
})
after(async () => {
  await plain.close()
  await forwarding.close()
})

const comparedHeaders = ['content-type', 'content-encoding', 'inference-header-content-length', 'accept-encoding']

for (const { name, group, request, expect } of cases) {
  const reason = differences[name]
  test(`${group}: ${name}${reason === undefined ? '' : ` (differs: ${reason})`}`, async () => {
    const port = ports.get(group === 'header-forwarding' ? forwarding : plain) as number
    const answer = await exchange(port, request)
    const isSame = compare(answer, expect, comparedByValue.has(name))
    // A listed difference that is gone must leave the list.
    if (reason !== undefined) assert.throws(isSame)
    else isSame()
  })
}

function compare(answer: HttpAnswer, expect: HttpAnswer, isByValue: boolean): () => void {
  return () => {
    if (isByValue) assert.deepEqual(JSON.parse(answer.body ?? ''), JSON.parse(expect.body ?? ''))
    else assert.deepEqual([answer.body, answer.body_b64], [expect.body, expect.body_b64])
    assert.equal(answer.binary_b64 ?? '', expect.binary_b64 ?? '')
    assert.equal(answer.status, expect.status)
    for (const header of comparedHeaders) assert.equal(answer.headers?.[header], expect.headers?.[header], header)
  }
}

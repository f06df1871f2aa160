// What Triton Inference Server 2.51.0 answered to requests, recorded case by case; the same requests over a real socket
// must get the same status, headers and bytes. The models behind them are in http-fixture.ts.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib'

import { startHttpFixture, type HttpFixture } from './http-fixture.ts'
import { exchange, type RawAnswer } from './http-raw-client.ts'

type RecordedCase = {
  name: string
  group: string
  request: {
    method: string
    path: string
    headers?: [string, string][]
    body?: string
    body_b64?: string
    binary_b64?: string
    encode?: 'gzip' | 'deflate'
    raw?: string
  }
  expect: {
    status: number | 'closed'
    headers?: Record<string, string>
    body?: string
    body_b64?: string
    binary_b64?: string
  }
}

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

const cases = readFileSync(new URL('../fixtures/http-recorded-cases.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as RecordedCase)

let plain: HttpFixture
let forwarding: HttpFixture
const ports = new Map<HttpFixture, number>()

before(async () => {
  plain = await startHttpFixture()
  forwarding = await startHttpFixture({ headerForwardPattern: '(fwd_.*|x-case)' })
  for (const fixture of [plain, forwarding]) ports.set(fixture, (await fixture.frontend.listen()).port)
})
after(async () => {
  await plain.close()
  await forwarding.close()
})

function wireOf({ request }: RecordedCase): Buffer {
  if (request.raw !== undefined) return Buffer.from(request.raw)
  const json =
    request.body_b64 === undefined ? Buffer.from(request.body ?? '') : Buffer.from(request.body_b64, 'base64')
  let body: Buffer = Buffer.concat([json, Buffer.from(request.binary_b64 ?? '', 'base64')])
  if (request.encode === 'gzip') body = gzipSync(body)
  if (request.encode === 'deflate') body = deflateSync(body)
  const headers = [['Host', 'localhost'], ...(request.headers ?? [])]
  if (body.length > 0 || request.method === 'POST' || request.method === 'PUT') {
    headers.push(['Content-Length', String(body.length)])
  }
  const head = `${request.method} ${request.path} HTTP/1.1\r\n${headers.map(([k, v]) => `${k}: ${v}\r\n`).join('')}\r\n`
  return Buffer.concat([Buffer.from(head), body])
}

function plainBody(answer: RawAnswer): Buffer {
  if (answer.headers['content-encoding'] === 'gzip') return gunzipSync(answer.body)
  if (answer.headers['content-encoding'] === 'deflate') return inflateSync(answer.body)
  return answer.body
}

const comparedHeaders = ['content-type', 'content-encoding', 'inference-header-content-length', 'accept-encoding']

for (const recorded of cases) {
  const { name, group, expect } = recorded
  const reason = differences[name]
  test(`${group}: ${name}${reason === undefined ? '' : ` (differs: ${reason})`}`, async () => {
    const port = ports.get(group === 'header-forwarding' ? forwarding : plain) as number
    const answer = await exchange(port, wireOf(recorded), recorded.request.method)
    const isSame = compare(answer, expect, comparedByValue.has(name))
    // A listed difference that is gone must leave the list.
    if (reason !== undefined) assert.throws(isSame)
    else isSame()
  })
}

function compare(answer: RawAnswer | 'closed', expect: RecordedCase['expect'], isByValue: boolean): () => void {
  return () => {
    if (answer === 'closed' || expect.status === 'closed') {
      assert.equal(answer === 'closed' ? 'closed' : answer.status, expect.status)
      return
    }
    const body = plainBody(answer)
    const jsonBytes = Number(answer.headers['inference-header-content-length'] ?? body.length)
    const expectedBody =
      expect.body_b64 === undefined ? Buffer.from(expect.body ?? '') : Buffer.from(expect.body_b64, 'base64')
    if (isByValue) assert.deepEqual(JSON.parse(body.toString()), JSON.parse(expectedBody.toString()))
    else assert.equal(body.subarray(0, jsonBytes).toString('latin1'), expectedBody.toString('latin1'))
    assert.equal(body.subarray(jsonBytes).toString('base64'), expect.binary_b64 ?? '')
    assert.equal(answer.status, expect.status)
    for (const header of comparedHeaders) assert.equal(answer.headers[header], expect.headers?.[header], header)
  }
}

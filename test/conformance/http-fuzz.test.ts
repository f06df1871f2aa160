// Generated requests against the whole front end: whatever is sent, the server answers, goes on answering and keeps its
// memory. A failing run prints its seed; set GALATEA_SEED to repeat it.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { deflateSync, gzipSync } from 'node:zlib'

import fc from 'fast-check'

import { dataTypes } from '../../src/tensor/data-type.ts'
import { startHttpFixture, type HttpFixture } from './http-fixture.ts'
import { RawConnection } from './http-raw-client.ts'
import { inject } from '../fakes/injected-request.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
const seed = Number(process.env['GALATEA_SEED'] ?? process.hrtime.bigint() % 2n ** 31n)

let fixture: HttpFixture
let port: number
before(async () => {
  fixture = await startHttpFixture({ maxInputBytes: 100_000, headerForwardPattern: '^(fwd|priority)' })
  port = (await fixture.frontend.listen()).port
})
after(() => fixture.close())

/** Triton answers 500 to JSON it cannot read or understand; no other 500 has a right to be. */
const jsonComplaint =
  /^(failed to parse the request JSON buffer: |Unable to parse |Unable to set 'classification': |failed to get request params\.: |attempt to )/

function checkAnswer(status: number, body: string): void {
  assert.ok([200, 400, 404, 405, 500, 501].includes(status), `${status} ${body}`)
  if (status === 500) assert.match((JSON.parse(body) as { error: string }).error, jsonComplaint)
  if (status === 501)
    assert.match(body, /Unsupported compression type|decoupled|not available in this build|correlation ID/)
}

const word = fc.constantFrom(
  'IN_FP32',
  'IN_BYTES',
  'IN_INT64',
  'OUT_FP32',
  'INPUT0',
  'INPUT1',
  'X',
  'SCORES',
  'SEEN',
  '',
)
const scalar = fc.oneof(
  fc.integer(),
  fc.double(),
  fc.string(),
  fc.boolean(),
  fc.constant(null),
  fc.constantFrom(2 ** 53 + 2, 1e308, -0, 1e-320, 4294967296),
)
const anything = fc.oneof(
  scalar,
  fc.array(scalar, { maxLength: 4 }),
  fc.dictionary(fc.string(), scalar, { maxKeys: 3 }),
)
const mostly = <T>(usual: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 12, arbitrary: usual as fc.Arbitrary<unknown> }, { weight: 1, arbitrary: anything })

const shape = fc.array(fc.oneof(fc.nat(5), fc.constantFrom(-1, 2 ** 31, 2 ** 53, 1.5)), { maxLength: 3 })
const data = fc.array(fc.oneof(scalar, fc.array(scalar, { maxLength: 4 }), fc.constant([[[]]])), { maxLength: 6 })
const input = fc.record(
  {
    name: mostly(word),
    shape: mostly(shape),
    datatype: mostly(fc.constantFrom(...dataTypes, 'fp32', 'TYPE_FP32')),
    data: mostly(data),
    parameters: mostly(
      fc.record(
        { binary_data_size: mostly(fc.nat(32)), shared_memory_region: mostly(fc.string()) },
        { requiredKeys: [] },
      ),
    ),
  },
  { requiredKeys: ['name'] },
)
const output = fc.record(
  {
    name: mostly(word),
    parameters: mostly(
      fc.record({ binary_data: mostly(fc.boolean()), classification: mostly(fc.nat(9)) }, { requiredKeys: [] }),
    ),
  },
  { requiredKeys: [] },
)
const requestBody = fc.record(
  {
    id: mostly(fc.string()),
    parameters: mostly(
      fc.dictionary(
        fc.constantFrom(
          'sequence_id',
          'sequence_start',
          'priority',
          'timeout',
          'binary_data_output',
          'triton_x',
          'own',
        ),
        anything,
        { maxKeys: 3 },
      ),
    ),
    inputs: mostly(fc.array(input, { maxLength: 3 })),
    outputs: mostly(fc.array(output, { maxLength: 3 })),
  },
  { requiredKeys: ['inputs'] },
)

/** Bytes of a request, then perhaps spoiled: cut, doubled, or with a few bytes replaced. */
const bodyBytes = fc
  .record({
    text: fc.oneof({ weight: 8, arbitrary: requestBody.map((body) => JSON.stringify(body)) }, fc.json(), fc.string()),
    tail: fc.uint8Array({ maxLength: 24 }),
    damage: fc.oneof(
      { weight: 3, arbitrary: fc.constant(null) },
      fc.record({
        at: fc.double({ min: 0, max: 1, noNaN: true }),
        cut: fc.nat(6),
        add: fc.uint8Array({ maxLength: 6 }),
      }),
    ),
  })
  .map(({ text, tail, damage }) => {
    const json = Buffer.from(text)
    const whole = Buffer.concat([json, tail])
    if (damage === null) return { jsonBytes: json.length, body: whole }
    const at = Math.floor(damage.at * whole.length)
    const spoiled = Buffer.concat([whole.subarray(0, at), damage.add, whole.subarray(at + damage.cut)])
    return { jsonBytes: json.length, body: spoiled }
  })

/** A request that fits its model, so that the way out is walked as well. */
const fitting = fc
  .record({
    values: fc.array(fc.integer(), { maxLength: 20 }),
    isBinary: fc.boolean(),
    isBinaryOut: fc.boolean(),
    id: fc.string(),
  })
  .map(({ values, isBinary, isBinaryOut, id }) => {
    const bytes = Buffer.from(Int32Array.from(values).buffer)
    const tensor = { name: 'IN_INT32', shape: [values.length], datatype: 'INT32' }
    const given = isBinary
      ? { parameters: { binary_data_size: bytes.length } }
      : { data: values.map((value) => value | 0) }
    const json = JSON.stringify({
      id,
      inputs: [{ ...tensor, ...given }],
      parameters: { binary_data_output: isBinaryOut },
    })
    const body = Buffer.concat([Buffer.from(json), isBinary ? bytes : Buffer.alloc(0)])
    return { jsonBytes: Buffer.byteLength(json), body }
  })

const exchange = fc.record({
  content: fc.oneof(bodyBytes, fitting),
  model: fc.constantFrom(
    'echo',
    'echo',
    'echo',
    'echo',
    'echo_batch',
    'add_sub',
    'add_sub_plain',
    'inspect_request',
    'classify',
    'nobody',
    'repeat',
  ),
  version: fc.constantFrom('', '', '', '', '', '/versions/1', '/versions/0', '/versions/99999999999999999999'),
  headerLength: fc.oneof(
    { weight: 4, arbitrary: fc.constant('right' as const) },
    fc.constant(null),
    fc.constantFrom('0', '-1', '', '99999', 'x', '1e3', ' 5'),
    fc.string({ maxLength: 8 }).filter((text) => /^[\x20-\x7e]*$/.test(text)),
  ),
  contentEncoding: fc.constantFrom(
    null,
    null,
    null,
    null,
    null,
    null,
    'gzip',
    'deflate',
    'identity',
    'br',
    'gzip-for-real',
    'gzip-for-real',
  ),
  acceptEncoding: fc.constantFrom(null, null, 'gzip', 'deflate;q=0.5,gzip;q=0.4', ';;,q=,', 'identity;q=9'),
  extra: fc.constantFrom<[string, string][]>([], [], [['fwd-a', 'é']], [['priority', '1']]),
})

type Exchange = typeof exchange extends fc.Arbitrary<infer T> ? T : never

function requestOf({ content, model, version, headerLength, contentEncoding, acceptEncoding, extra }: Exchange) {
  const headers: [string, string][] = [...extra]
  if (headerLength !== null) {
    const value = headerLength === 'right' ? String(content.jsonBytes) : headerLength
    headers.push(['Inference-Header-Content-Length', value])
  }
  let { body } = content
  if (contentEncoding === 'gzip-for-real') {
    body = content.jsonBytes % 2 === 0 ? gzipSync(body) : deflateSync(body)
    headers.push(['Content-Encoding', 'gzip'])
  } else if (contentEncoding !== null) headers.push(['Content-Encoding', contentEncoding])
  if (acceptEncoding !== null) headers.push(['Accept-Encoding', acceptEncoding])
  return { method: 'POST', path: `/v2/models/${model}${version}/infer`, headers, body }
}

const usedBytes = async (): Promise<number> => {
  await new Promise((resolve) => setImmediate(resolve))
  collectGarbage()
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

async function assertStillServing(): Promise<void> {
  const body = '{"inputs":[{"name":"X","shape":[1],"datatype":"INT32","data":[5]}],"outputs":[{"name":"ECHO"}]}'
  const answer = await inject(fixture.frontend, { method: 'POST', path: '/v2/models/inspect_request/infer', body })
  assert.equal(answer.status, 200)
  assert.match(answer.body.toString(), /"data":\[5\]/)
  assert.deepEqual(
    fixture.log.entries.filter((entry) => entry.level === 'error'),
    [],
  )
}

test('20,000 generated inference requests: every one is answered, and none with a failure of ours', async (t) => {
  t.diagnostic(`seed ${seed}`)
  const statuses = new Map<number, number>()
  let count = 0
  const property = fc.asyncProperty(exchange, async (it) => {
    // As between requests of real sockets: zlib gives its memory back on the next turn of the event loop.
    if (++count % 32 === 0) await new Promise((resolve) => setImmediate(resolve))
    const answer = await inject(fixture.frontend, requestOf(it))
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
    const isPlain = answer.headers['content-encoding'] === undefined
    checkAnswer(answer.status, isPlain ? answer.body.toString() : '')
  })
  // Warm, then measured: what grows after that grows with the requests.
  await fc.assert(property, { numRuns: 2000, seed })
  const before = await usedBytes()
  await fc.assert(property, { numRuns: 20_000, seed: seed + 1 })
  const grown = (await usedBytes()) - before
  t.diagnostic(
    `statuses ${JSON.stringify(Object.fromEntries([...statuses].toSorted(([a], [b]) => a - b)))}, memory grew ${grown} bytes`,
  )
  // Requests that only ever failed at the door would prove little.
  assert.ok((statuses.get(200) ?? 0) > 500)
  assert.ok(grown < 16 * 1024 * 1024, `memory grew by ${grown} bytes`)
  await assertStillServing()
})

const pathPiece = fc.constantFrom(
  'v2',
  'models',
  'echo',
  'versions',
  '1',
  'infer',
  'ready',
  'config',
  'stats',
  '..',
  '%2f',
  '',
  'x',
)
const method = fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'PATCH', 'OPTIONS')

test('5,000 generated paths and methods: every one is answered', async (t) => {
  t.diagnostic(`seed ${seed}`)
  const property = fc.asyncProperty(
    method,
    fc.array(pathPiece, { maxLength: 7 }),
    fc.string(),
    async (verb, pieces, query) => {
      const answer = await inject(fixture.frontend, { method: verb, path: `/${pieces.join('/')}?${query}` })
      checkAnswer(answer.status, verb === 'HEAD' ? '{"error":"attempt to "}' : answer.body.toString())
    },
  )
  await fc.assert(property, { numRuns: 5000, seed })
  await assertStillServing()
})

const line = fc.oneof(
  fc.constantFrom(
    'Host: localhost',
    'Content-Length: 5',
    'Transfer-Encoding: chunked',
    'Expect: 100-continue',
    'Connection: close',
    'Upgrade: h2c',
  ),
  fc.string({ maxLength: 30 }),
)
const wire = fc.record({
  start: fc.oneof(
    {
      weight: 4,
      arbitrary: fc.constantFrom('POST /v2/models/echo/infer HTTP/1.1', 'GET /v2 HTTP/1.1', 'GET /v2 HTTP/1.0'),
    },
    fc.string({ maxLength: 40 }),
  ),
  lines: fc.array(line, { maxLength: 5 }),
  body: fc.oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc.constantFrom(Buffer.from('5\r\n{"a":\r\n0\r\n\r\n'), Buffer.from('ffffffffff\r\n')),
  ),
})

test('1,000 generated byte streams over a socket: each ends in an answer or a closed connection', async (t) => {
  t.diagnostic(`seed ${seed}`)
  const property = fc.asyncProperty(wire, async ({ start, lines, body }) => {
    const connection = new RawConnection(port)
    connection.send(
      Buffer.concat([Buffer.from(`${start}\r\n${lines.map((text) => `${text}\r\n`).join('')}\r\n`), body]),
    )
    // The end of the stream ends whatever the server may still wait for.
    connection.socket.end()
    await connection.closed()
  })
  await fc.assert(property, { numRuns: 1000, seed })
  await assertStillServing()
})

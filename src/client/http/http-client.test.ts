// The rules of the HTTP client against a fetch that does as it is told.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InferenceError } from '../inference-error.ts'
import { HttpClient, type HttpClientOptions } from './http-client.ts'

type Sent = { readonly url: string; readonly init: RequestInit }

/** Answers in order; the last one again and again. A function throws what it returns. */
function clientUnderTest(answers: readonly (() => Response | Error)[], options: Partial<HttpClientOptions> = {}) {
  const sent: Sent[] = []
  const client = new HttpClient({
    url: 'localhost:8000/',
    fetch: async (url, init) => {
      const answer = answers[Math.min(sent.length, answers.length - 1)]?.()
      sent.push({ url, init })
      if (answer === undefined || answer instanceof Error) throw answer ?? new Error('no answer')
      return answer
    },
    ...options,
  })
  return { client, sent }
}

const refused = (): Error =>
  new TypeError('fetch failed', { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) })
const broken = (): Error =>
  new TypeError('fetch failed', { cause: Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }) })
const unavailable = (): Response => new Response('{"error":"Exceeds maximum queue size"}', { status: 503 })
const metadata = (): Response => Response.json({ name: 'galatea', version: '1', extensions: [] })
const inferred = (): Response => Response.json({ model_name: 'M', model_version: '1', outputs: [] })

test('reads are sent again after a broken connection and after 503', async () => {
  const { client, sent } = clientUnderTest([broken, unavailable, metadata])
  assert.equal((await client.serverMetadata()).name, 'galatea')
  assert.deepEqual(
    sent.map(({ url }) => url),
    Array.from({ length: 3 }, () => 'http://localhost:8000/v2'),
  )
})

test('a failure that has a usual reason names it: rules of the page, TLS', async () => {
  const failing = (reason: () => Error, url: string): Promise<unknown> =>
    clientUnderTest([reason], { retries: 0, url }).client.infer('M', {})
  const foreign = (): Error => new TypeError('Failed to fetch')
  await assert.rejects(failing(foreign, 'https://a'), /a page of another origin needs --http-cors-origin/)
  await assert.rejects(failing(broken, 'http://a'), /does this port speak TLS\? then write https:/)
  const plain = (): Error =>
    new TypeError('fetch failed', {
      cause: new Error(
        '808C45372F7F0000:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:record.c:350:\n',
      ),
    })
  await assert.rejects(failing(plain, 'https://a'), {
    message: 'cannot reach https://a: the port does not speak TLS: write http:// in place of https://',
  })
  await assert.rejects(failing(broken, 'https://a'), (error: Error) => !error.message.includes('TLS'))
})

test('retries end at the number that was given', async () => {
  const { client, sent } = clientUnderTest([unavailable], { retries: 1 })
  await assert.rejects(client.serverMetadata(), {
    code: 'UNAVAILABLE',
    status: 503,
    message: 'Exceeds maximum queue size',
  })
  assert.equal(sent.length, 2)
})

test('inference is sent again only when the connection was refused', async () => {
  const after = clientUnderTest([refused, inferred])
  assert.equal((await after.client.infer('M', {})).modelName, 'M')
  assert.equal(after.sent.length, 2)
  for (const [answer, code] of [
    [broken, 'UNREACHABLE'],
    [unavailable, 'UNAVAILABLE'],
  ] as const) {
    const { client, sent } = clientUnderTest([answer, inferred])
    await assert.rejects(client.infer('M', {}), { code })
    assert.equal(sent.length, 1)
  }
})

test('inference is sent again after 503 when the caller allows it, and never after a broken connection', async () => {
  const { client, sent } = clientUnderTest([unavailable, inferred])
  await client.infer('M', {}, { retryUnavailable: true })
  assert.equal(sent.length, 2)
  const other = clientUnderTest([broken, inferred], { retryUnavailable: true })
  await assert.rejects(other.client.infer('M', {}), { code: 'UNREACHABLE' })
})

test('a client error is not tried again', async () => {
  const { client, sent } = clientUnderTest([() => new Response('{"error":"no such model"}', { status: 404 })])
  await assert.rejects(client.modelMetadata('M'), { code: 'NOT_FOUND', status: 404, message: 'no such model' })
  assert.equal(sent.length, 1)
})

test('a server that cannot be reached is not live, and not asked twice', async () => {
  const { client, sent } = clientUnderTest([broken])
  assert.equal(await client.isLive(), false)
  assert.equal(sent.length, 1)
})

test('an aborted call rejects with the reason of its signal, and sends nothing when it was aborted before', async () => {
  const { client, sent } = clientUnderTest([metadata])
  const reason = new Error('changed my mind')
  await assert.rejects(client.serverMetadata({ signal: AbortSignal.abort(reason) }), reason)
  assert.equal(sent.length, 0)
})

const never: HttpClientOptions['fetch'] = (_, { signal }) =>
  new Promise((_resolve, reject) => {
    if (signal?.aborted === true) reject(signal.reason as Error)
    signal?.addEventListener('abort', () => reject(signal.reason as Error))
  })

test('timeoutMs ends a call that gets no answer', async () => {
  const client = new HttpClient({ url: 'localhost', fetch: never, timeoutMs: 5 })
  await assert.rejects(client.serverMetadata(), { code: 'TIMEOUT', message: 'no answer within 5 ms' })
  await assert.rejects(client.infer('M', {}), { code: 'TIMEOUT' })
  await assert.rejects(client.infer('M', {}, { timeoutMs: 0 }), { code: 'INVALID_ARG' })
})

test('an abort while the answer is awaited rejects with its reason', async () => {
  const client = new HttpClient({ url: 'localhost', fetch: never })
  const controller = new AbortController()
  const call = client.infer('M', {}, { signal: controller.signal })
  controller.abort(new Error('too late'))
  await assert.rejects(call, /too late/)
})

test('many calls may share one signal without a warning', async (t) => {
  const warnings: Error[] = []
  const note = (warning: Error): void => void warnings.push(warning)
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  const client = new HttpClient({ url: 'localhost', fetch: never })
  const { signal } = new AbortController()
  const calls = Array.from({ length: 50 }, () => client.infer('M', {}, { signal }))
  await new Promise(setImmediate)
  await client.close()
  assert.equal(
    (await Promise.allSettled(calls)).every(({ status }) => status === 'rejected'),
    true,
  )
  assert.deepEqual(warnings, [])
})

test('close ends the calls under way', async () => {
  const client = new HttpClient({ url: 'localhost', fetch: never })
  const call = client.infer('M', {})
  // The call has reached fetch when its promises have had a turn.
  await new Promise(setImmediate)
  await client.close()
  await assert.rejects(call, { code: 'CANCELLED' })
  await assert.rejects(client.serverMetadata(), { code: 'CANCELLED' })
})

test('binary answers are understood without the header that says where the JSON ends', async () => {
  const json =
    '{"model_name":"M","model_version":"1","outputs":[{"name":"Y","datatype":"INT32","shape":[2],"parameters":{"binary_data_size":8}}]}'
  const body = Buffer.concat([Buffer.from(json), Buffer.from(Int32Array.of(3, 4).buffer)])
  // A browser hides the header from a page of another origin.
  const { client } = clientUnderTest([
    () => new Response(body, { headers: { 'content-type': 'application/octet-stream' } }),
  ])
  assert.deepEqual((await client.infer('M', {})).output('Y').numbers(), [3, 4])
})

test('names and versions cannot leave their place in the path', async () => {
  const { client, sent } = clientUnderTest([inferred])
  await client.infer('../a b', {}, { version: '1/../x' })
  assert.equal(sent[0]?.url, 'http://localhost:8000/v2/models/..%2Fa%20b/versions/1%2F..%2Fx/infer')
})

test('an answer that is no JSON is a PROTOCOL error, an error page keeps its text', async () => {
  const { client } = clientUnderTest([() => new Response('<html>')])
  await assert.rejects(client.serverMetadata(), { code: 'PROTOCOL' })
  const other = clientUnderTest([() => new Response('Bad Gateway', { status: 502 })], { retries: 0 })
  await assert.rejects(other.client.serverMetadata(), { code: 'UNAVAILABLE', status: 502, message: 'Bad Gateway' })
})

test('an address that is none is refused at once', () => {
  assert.throws(() => new HttpClient({ url: 'ftp://host' }), /expected http:\/\/ or https:\/\//)
  assert.throws(() => new HttpClient({ url: 'http://:::' }), /is not an address/)
})

/** An answer without an end, and how much of it was read. */
function endless(status: number): {
  readonly answer: () => Response
  readonly read: { bytes: number; isGivenUp: boolean }
} {
  const read = { bytes: 0, isGivenUp: false }
  const piece = new Uint8Array(65_536).fill(0x61)
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    read.bytes += piece.length
    controller.enqueue(piece)
  }
  const body = (): ReadableStream<Uint8Array> =>
    new ReadableStream({ pull, cancel: () => void (read.isGivenUp = true) })
  return { answer: () => new Response(body(), { status }), read }
}

test('of an answer without an end as much is read as the client takes', async () => {
  const settings = { retries: 0, maxMessageBytes: 1_000_000 }
  const tooLong = { code: 'PROTOCOL', message: 'the answer is longer than maxMessageBytes (1000000)' }
  for (const ask of [
    (client: HttpClient) => client.infer('M', {}),
    (client: HttpClient) => client.serverMetadata(),
    (client: HttpClient) => client.generate('M', {}),
  ]) {
    const { answer, read } = endless(200)
    await assert.rejects(ask(clientUnderTest([answer], settings).client), tooLong)
    assert.deepEqual([read.bytes < 1_300_000, read.isGivenUp], [true, true])
  }
  const { answer, read } = endless(500)
  await assert.rejects(clientUnderTest([answer], settings).client.infer('M', {}), { code: 'INTERNAL', status: 500 })
  assert.ok(read.isGivenUp && read.bytes < 1_300_000)
  const health = endless(200)
  assert.equal(await clientUnderTest([health.answer], settings).client.isLive(), true)
  assert.ok(health.read.isGivenUp && health.read.bytes < 300_000)
})

test('an answer of another form than a server has is a PROTOCOL error, whatever it is', async () => {
  for (const body of ['null', '5', '[null]', '{"inputs":5,"model_stats":{}}', '{"inputs":[null]}', '', '[']) {
    const { client } = clientUnderTest([() => new Response(body)], { retries: 0 })
    for (const ask of [
      () => client.modelMetadata('M'),
      () => client.statistics(),
      () => client.repositoryIndex(),
      () => client.modelHistory('M'),
      () => client.generate('M', {}),
      () => client.infer('M', {}),
    ]) {
      await ask().catch((reason: unknown) => {
        assert.ok(reason instanceof InferenceError && reason.code === 'PROTOCOL', `${body} ${String(reason)}`)
      })
    }
  }
})

test('an output whose bytes or elements do not fit is a PROTOCOL error', async () => {
  const sizes = ['-4', '1.5', '"4"', '1000000000000000000'].map((size) => `"parameters":{"binary_data_size":${size}}`)
  for (const said of [...sizes, '"data":["x"]', '"data":5']) {
    const text = `{"outputs":[{"name":"Y","datatype":"INT64","shape":[1],${said}}]}`
    const { client } = clientUnderTest([() => new Response(text)], { retries: 0 })
    await assert.rejects(client.infer('M', {}), { code: 'PROTOCOL' }, text)
  }
})

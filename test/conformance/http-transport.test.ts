// Rules of HTTP itself, over a real socket and byte by byte: what Triton's library does with odd requests, and our limits.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'

import { ManualClock } from '../fakes/manual-clock.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { until } from '../until.ts'
import { startHttpFixture, type HttpFixture } from './http-fixture.ts'
import { exchange, RawConnection, type RawAnswer } from './http-raw-client.ts'
import { inject } from '../fakes/injected-request.ts'

const inferBody = '{"inputs":[{"name":"X","shape":[1],"datatype":"INT32","data":[5]}],"outputs":[{"name":"ECHO"}]}'
const inferAnswer =
  '{"model_name":"inspect_request","model_version":"1","outputs":[{"name":"ECHO","datatype":"INT32","shape":[1],"data":[5]}]}'
const inferPath = '/v2/models/inspect_request/infer'
const post = (headers: string, body: string, path = inferPath): string =>
  `POST ${path} HTTP/1.1\r\n${headers}\r\n${body}`
const inferWire = post(`Content-Length: ${inferBody.length}\r\n`, inferBody)

const held: InferenceRequest[] = []
let onHeld: (() => void) | null = null
const whenHeld = (count: number): Promise<void> =>
  new Promise((resolve) => {
    onHeld = () => {
      if (held.length >= count) resolve()
    }
    onHeld()
  })

const slowConfig =
  'input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] } output { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }'
const hold = (request: InferenceRequest): void => {
  held.push(request)
  request.handOver({ onCancel: (cancelled) => cancelled.failCancelled() })
  onHeld?.()
}
const slowBody = '{"inputs":[{"name":"X","shape":[1],"datatype":"INT32","data":[5]}]}'
const slowWire = post(`Content-Length: ${slowBody.length}\r\n`, slowBody, '/v2/models/slow/infer')

let fixture: HttpFixture
let port: number

before(async () => {
  fixture = await startHttpFixture({ maxInputBytes: 10_000 }, { slow: { config: slowConfig, run: hold } })
  port = (await fixture.frontend.listen()).port
})
after(() => fixture.close())

const required = (answer: RawAnswer | 'closed'): RawAnswer => {
  assert.notEqual(answer, 'closed')
  return answer as RawAnswer
}
const errorOf = (answer: RawAnswer): string => (JSON.parse(answer.body.toString()) as { error: string }).error

test('an answer has its length and its type and no date', async () => {
  const answer = required(await exchange(port, 'GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n'))
  assert.equal(answer.status, 200)
  assert.equal(answer.reason, 'OK')
  assert.equal(answer.headers['content-length'], String(answer.body.length))
  assert.equal(answer.headers['date'], undefined)
})

test('an answer that begins like one before it has its own values, its own length and its own way to end', async () => {
  const connection = new RawConnection(port)
  const ask = async (values: readonly number[], version = '1.1', headers = ''): Promise<RawAnswer> => {
    const size = values.length * 4
    const input = `{"name":"X","shape":[${values.length}],"datatype":"INT32","parameters":{"binary_data_size":${size}}}`
    const json = `{"inputs":[${input}],"outputs":[{"name":"ECHO","parameters":{"binary_data":true}}]}`
    const head =
      `POST ${inferPath} HTTP/${version}\r\n${headers}iNFERENCE-header-content-LENGTH: ${json.length}\r\n` +
      `Content-Length: ${json.length + size}\r\n\r\n${json}`
    connection.send(Buffer.concat([Buffer.from(head), Buffer.from(Int32Array.from(values).buffer)]))
    const answer = required(await connection.answer())
    const headerLength = Number(answer.headers['inference-header-content-length'])
    const echoed = answer.body.subarray(headerLength)
    assert.deepEqual([...new Int32Array(new Uint8Array(echoed).buffer)], values)
    const { outputs } = JSON.parse(answer.body.toString('utf8', 0, headerLength)) as { outputs: { shape: number[] }[] }
    assert.deepEqual(outputs[0]?.shape, [values.length])
    return answer
  }
  const [first, second, third] = [await ask([5]), await ask([6]), await ask([7])]
  assert.deepEqual(second.headers, first.headers)
  assert.deepEqual(third.headers, first.headers)
  for (const values of [[1, 2], [3, 4], [8], [9]]) await ask(values)
  const kept = await ask([10], '1.0', 'Connection: keep-alive\r\n')
  assert.deepEqual(kept.headers, { ...first.headers, connection: 'keep-alive' })
  assert.deepEqual((await ask([11])).headers, first.headers)
  const closing = await ask([12], '1.1', 'Connection: close\r\n')
  assert.deepEqual(closing.headers, { ...first.headers, connection: 'close' })
  await connection.closed()
})

test('405 is called Not Allowed and names no other method', async () => {
  const answer = required(await exchange(port, 'DELETE /v2 HTTP/1.1\r\n\r\n'))
  assert.equal(answer.status, 405)
  assert.equal(answer.reason, 'Not Allowed')
  assert.equal(answer.headers['allow'], undefined)
})

test('HEAD gets the answer to its method without a body', async () => {
  const connection = new RawConnection(port)
  connection.send('HEAD /v2 HTTP/1.1\r\n\r\nGET /v2/health/live HTTP/1.1\r\n\r\n')
  assert.equal(required(await connection.answer('HEAD')).status, 405)
  assert.equal(required(await connection.answer()).status, 200)
  connection.destroy()
})

const malformed: readonly (readonly [wire: string, fault: RegExp])[] = [
  ['GET /a b HTTP/1.1\r\n\r\n', /the first line of a request .* found 'GET \/a b HTTP\/1\.1'/],
  ['GET /v2 HTTP/1.1\nHost: localhost\n\n', /ends with CR LF/],
  ['FETCH /v2 HTTP/1.1\r\n\r\n', /the first line of a request/],
  ['GET /v2 HTTP/1.1\r\nno colon\r\n\r\n', /found 'no colon'/],
  [post('Content-Length: abc\r\n', '{}'), /Content-Length must be a number of bytes, found 'abc'/],
  [post('Content-Length: -1\r\n', '{}'), /found '-1'/],
  [post('Transfer-Encoding: chunked\r\n', 'zz\r\n'), /a chunk of the body does not begin with its size/],
]

test('with --triton-defaults an unparsable request is closed without a reply', async () => {
  for (const [wire] of [...malformed, ['NONSENSE\r\n\r\n']] as const) {
    assert.equal(await exchange(port, wire), 'closed', wire)
  }
})

test('who sends an unparsable request is told what is wrong with it, and the connection closes', async () => {
  const own = await startHttpFixture({}, {}, undefined, false)
  try {
    const ownPort = (await own.frontend.listen()).port
    for (const [wire, fault] of malformed) {
      const connection = new RawConnection(ownPort)
      connection.send('GET /v2/health/live HTTP/1.1\r\n\r\n')
      assert.equal(required(await connection.answer()).status, 200)
      connection.send(wire)
      const answer = required(await connection.answer())
      assert.deepEqual([answer.status, answer.headers['connection']], [400, 'close'], wire)
      assert.match(errorOf(answer), fault)
      await connection.closed()
    }
    assert.equal(await exchange(ownPort, 'NONSENSE\r\n\r\n'), 'closed', 'what is no HTTP has no answer')
  } finally {
    await own.close()
  }
})

test('a request with a length and with chunks is answered and then closed: nothing behind its head is read', async () => {
  for (const headers of [
    'Content-Length: 2\r\nTransfer-Encoding: chunked',
    'transfer-encoding: chunked\r\ncontent-length: 0',
  ]) {
    const connection = new RawConnection(port)
    connection.send(post(`${headers}\r\n`, '0\r\n\r\nGET /v2/health/live HTTP/1.1\r\n\r\n'))
    const answer = required(await connection.answer())
    assert.deepEqual([answer.status, answer.headers['connection']], [400, 'close'])
    assert.match(answer.body.toString(), /both Content-Length and Transfer-Encoding/)
    assert.equal(await connection.answer(), 'closed')
  }
})

test('HTTP/1.0 is served and closed, a missing Host and an absolute URI are served', async () => {
  const connection = new RawConnection(port)
  connection.send('GET /v2/health/live HTTP/1.0\r\n\r\n')
  assert.equal(required(await connection.answer()).status, 200)
  await connection.closed()
  assert.equal(required(await exchange(port, 'GET /v2 HTTP/1.1\r\n\r\n')).status, 200)
  assert.equal(required(await exchange(port, 'GET http://any.where/v2 HTTP/1.1\r\n\r\n')).status, 200)
})

test('a connection serves one request after the other', async () => {
  const connection = new RawConnection(port)
  for (let i = 0; i < 5; i++) {
    connection.send(inferWire)
    const answer = required(await connection.answer())
    assert.equal(answer.body.toString(), inferAnswer)
  }
  connection.send('GET /v2 HTTP/1.1\r\nConnection: close\r\n\r\n')
  assert.equal(required(await connection.answer()).headers['connection'], 'close')
  await connection.closed()
})

test('pipelined requests are answered in their order', async () => {
  const connection = new RawConnection(port)
  connection.send(`${inferWire}GET /nothing HTTP/1.1\r\n\r\n${inferWire}GET /v2/health/live HTTP/1.1\r\n\r\n`)
  const statuses: number[] = []
  for (let i = 0; i < 4; i++) statuses.push(required(await connection.answer()).status)
  assert.deepEqual(statuses, [200, 404, 200, 200])
  connection.destroy()
})

test('a pipelined request waits for the answer of a slow one before it', async () => {
  held.length = 0
  const connection = new RawConnection(port)
  connection.send(`${slowWire}GET /v2/health/live HTTP/1.1\r\n\r\n`)
  await whenHeld(1)
  const request = held[0] as InferenceRequest
  request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [1], new Uint8Array([7, 0, 0, 0]))]))
  assert.match(required(await connection.answer()).body.toString(), /"data":\[7\]/)
  assert.equal(required(await connection.answer()).body.length, 0)
  connection.destroy()
})

test('a body may come byte by byte', async () => {
  const connection = new RawConnection(port)
  connection.socket.setNoDelay(true)
  for (const char of inferWire) connection.send(char)
  assert.equal(required(await connection.answer()).body.toString(), inferAnswer)
  connection.destroy()
})

test('a chunked body is put together', async () => {
  const chunks = inferBody
    .split('')
    .map((char) => `1\r\n${char}\r\n`)
    .join('')
  const answer = required(await exchange(port, post('Transfer-Encoding: chunked\r\n', `${chunks}0\r\n\r\n`)))
  assert.equal(answer.body.toString(), inferAnswer)
})

test('Expect: 100-continue is told to continue and then answered', async () => {
  const connection = new RawConnection(port)
  connection.send(post(`Expect: 100-continue\r\nContent-Length: ${inferBody.length}\r\n`, ''))
  assert.equal(required(await connection.answer()).status, 100)
  connection.send(inferBody)
  assert.equal(required(await connection.answer()).body.toString(), inferAnswer)
  connection.destroy()
})

test('Expect: 100-continue with a body over the limit is refused before it is sent', async () => {
  const connection = new RawConnection(port)
  connection.send(post('Expect: 100-continue\r\nContent-Length: 10001\r\n', ''))
  const answer = required(await connection.answer())
  assert.equal(answer.status, 400)
  assert.equal(
    errorOf(answer),
    'request JSON size of 10001 bytes exceeds the maximum allowed input size of 10000 bytes. Use --http-max-input-size to increase the limit.',
  )
  await connection.closed()
})

test('a body over the limit is heard out and refused with the limit and its flag, announced or chunked', async () => {
  const big = ' '.repeat(20_000)
  const announced = required(await exchange(port, post('Content-Length: 20000\r\n', big)))
  assert.equal(announced.status, 400)
  assert.match(
    errorOf(announced),
    /request JSON size of 20000 bytes exceeds .* 10000 bytes\. Use --http-max-input-size/,
  )
  const chunked = required(await exchange(port, post('Transfer-Encoding: chunked\r\n', `4e20\r\n${big}\r\n0\r\n\r\n`)))
  assert.match(errorOf(chunked), /request JSON size of 20000 bytes exceeds/)
  const binary = required(
    await exchange(port, post('Inference-Header-Content-Length: 9\r\nContent-Length: 20000\r\n', big)),
  )
  assert.match(errorOf(binary), /request body of 20000 bytes exceeds .* Use --http-max-input-size/)
})

test('a body far over the limit is refused at once and the connection closed', async () => {
  const connection = new RawConnection(port)
  connection.send(post('Content-Length: 99999999\r\n', ''))
  assert.equal(required(await connection.answer()).status, 400)
  await connection.closed()
})

test('65536 chunks are the limit', async () => {
  const wide = await startHttpFixture()
  const widePort = (await wide.frontend.listen()).port
  const padding = '1\r\n \r\n'
  const rest = inferBody
    .split('')
    .map((char) => `1\r\n${char}\r\n`)
    .join('')
  const within = padding.repeat(65536 - inferBody.length) + rest
  const served = await exchange(widePort, post('Transfer-Encoding: chunked\r\n', `${within}0\r\n\r\n`))
  assert.equal(required(served).body.toString(), inferAnswer)
  const connection = new RawConnection(widePort)
  connection.send(post('Transfer-Encoding: chunked\r\n', `${padding}${within}0\r\n\r\n`))
  assert.equal(
    errorOf(required(await connection.answer())),
    'Chunked request body exceeds maximum of 65536 non-empty chunks. Send fewer or larger HTTP chunks.',
  )
  await connection.closed()
  await wide.close()
})

test('headers over the limit get 431 with the limit and its flag', async () => {
  const answer = required(await exchange(port, `GET /v2 HTTP/1.1\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`))
  assert.equal(answer.status, 431)
  assert.equal(
    errorOf(answer),
    "the request's headers exceed 16384 bytes. Use --http-max-header-size to increase the limit.",
  )
})

test('a client that goes away cancels its request', async () => {
  held.length = 0
  const connection = new RawConnection(port)
  connection.send(slowWire)
  await whenHeld(1)
  const request = held[0] as InferenceRequest
  const cancelled = new Promise<void>((resolve) => {
    request.handOver({
      onCancel: (it) => {
        it.failCancelled()
        resolve()
      },
    })
  })
  connection.destroy()
  await cancelled
  assert.ok(request.isCancelled)
  assert.ok(request.isEnded)
})

test("a model's memory goes back after its bytes are written, and also when nobody is there to read them", async () => {
  for (const isGone of [false, true]) {
    held.length = 0
    const connection = new RawConnection(port)
    const body = slowBody.replace('{', '{"parameters":{"binary_data_output":true},')
    connection.send(post(`Content-Length: ${body.length}\r\n`, body, '/v2/models/slow/infer'))
    await whenHeld(1)
    const request = held[0] as InferenceRequest
    if (isGone) {
      const cancelled = new Promise<void>((resolve) => {
        request.handOver({ onCancel: () => resolve() })
      })
      connection.destroy()
      await cancelled
    }
    let releaseCount = 0
    const released = new Promise<void>((resolve) => {
      const release = (): void => {
        releaseCount++
        resolve()
      }
      const bytes = new Uint8Array(4_000_000)
      request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [1_000_000], bytes)], { release }))
    })
    if (!isGone) {
      const answer = required(await connection.answer())
      assert.equal(answer.body.length, 4_000_000 + Number(answer.headers['inference-header-content-length']))
    }
    await released
    assert.equal(releaseCount, 1)
    connection.destroy()
  }
})

/** A server whose time stands still, and a client whose bytes it has read. */
async function heardOut(
  wire: string,
): Promise<{ clock: ManualClock; connection: RawConnection; patient: HttpFixture }> {
  const clock = new ManualClock()
  const patient = await startHttpFixture({}, { slow: { config: slowConfig, run: hold } }, clock)
  const connection = new RawConnection((await patient.frontend.listen()).port)
  connection.send(wire)
  const { traffic } = patient.frontend
  await until(() => traffic.totals().bytesRead === wire.length, 'the bytes of the client')
  return { clock, connection, patient }
}

test('headers that do not come get 408 with the limit and its flag', async () => {
  const { clock, connection, patient } = await heardOut('GET /v2 HTTP/1.1\r\nA: b')
  clock.advanceMs(10_000)
  connection.send(': c')
  clock.advanceMs(1000)
  const late = required(await connection.answer())
  assert.equal(late.status, 408)
  assert.match(errorOf(late), /headers took longer than 10 s .* Use --http-headers-timeout-secs/)
  await connection.closed()
  await patient.close()
})

test('a body that stands still gets 408 with the limit and its flag', async () => {
  const { clock, connection, patient } = await heardOut(post('Content-Length: 10\r\n', '{'))
  clock.advanceMs(31_000)
  const stalled = required(await connection.answer())
  assert.equal(stalled.status, 408)
  assert.match(errorOf(stalled), /no byte of the request body arrived for 30 s\. Use --http-body-idle-timeout-secs/)
  await connection.closed()
  await patient.close()
})

test('a body that comes byte by byte gets 408 with the least rate and its flag; one that comes at the least rate is taken', async () => {
  const { clock, connection, patient } = await heardOut(post('Content-Length: 100000\r\n', '{'))
  const { traffic } = patient.frontend
  const sendEachSecond = async (bytes: number, seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      const { bytesRead } = traffic.totals()
      connection.send(' '.repeat(bytes))
      await until(() => traffic.totals().bytesRead === bytesRead + bytes, 'the bytes of the client')
      clock.advanceMs(1000)
    }
  }
  await sendEachSecond(250, 90)
  await sendEachSecond(1, 20)
  clock.advanceMs(11_000)
  const slow = required(await connection.answer())
  assert.equal(slow.status, 408)
  assert.match(errorOf(slow), /\d+ bytes .* in 30 s, at least 240 per second must\. Use --http-body-min-rate/)
  await connection.closed()
  await patient.close()
})

test('waiting for a model is not idling', async () => {
  held.length = 0
  const { clock, connection, patient } = await heardOut(slowWire)
  await whenHeld(1)
  clock.advanceMs(3_600_000)
  const request = held[0] as InferenceRequest
  request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [1], new Uint8Array(4))]))
  assert.equal(required(await connection.answer()).status, 200)
  connection.destroy()
  await patient.close()
})

test('an idle connection is closed after the keep-alive time, not before', async () => {
  const { clock, connection, patient } = await heardOut('GET /v2 HTTP/1.1\r\n\r\n')
  assert.equal(required(await connection.answer()).status, 200)
  clock.advanceMs(75_000)
  connection.send('GET /v2 HTTP/1.1\r\n\r\n')
  assert.equal(required(await connection.answer()).status, 200)
  clock.advanceMs(76_000)
  await connection.closed()
  await patient.close()
})

test('a client that does not take its answer is hung up on, and the memory behind it goes back', async () => {
  held.length = 0
  const impatient = await startHttpFixture({ writeIdleTimeoutMs: 50 }, { slow: { config: slowConfig, run: hold } })
  const connection = new RawConnection((await impatient.frontend.listen()).port)
  connection.socket.pause()
  const body = slowBody.replace('{', '{"parameters":{"binary_data_output":true},')
  connection.send(post(`Content-Length: ${body.length}\r\n`, body, '/v2/models/slow/infer'))
  await whenHeld(1)
  const request = held[0] as InferenceRequest
  await new Promise<void>((resolve) => {
    // More than the buffers of both ends hold.
    const bytes = new Uint8Array(64 * 1024 * 1024)
    request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [bytes.length / 4], bytes)], { release: resolve }))
  })
  connection.destroy()
  await impatient.close()
})

test('an offer to upgrade is not taken up, a tunnel is not opened', async () => {
  const offer = 'GET /v2/health/live HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n'
  assert.equal(required(await exchange(port, offer)).status, 200)
  assert.equal(await exchange(port, 'CONNECT localhost:1 HTTP/1.1\r\n\r\n'), 'closed')
})

test('connections over the limit are closed', async () => {
  const small = await startHttpFixture({ maxConnections: 1 })
  const smallPort = (await small.frontend.listen()).port
  const first = new RawConnection(smallPort)
  first.send('GET /v2 HTTP/1.1\r\n\r\n')
  assert.equal(required(await first.answer()).status, 200)
  assert.equal(await exchange(smallPort, 'GET /v2 HTTP/1.1\r\n\r\n'), 'closed')
  first.destroy()
  await small.close()
})

test('draining answers what is in flight, closes its connection, and takes no new ones', async () => {
  held.length = 0
  const draining = await startHttpFixture({}, { slow: { config: slowConfig, run: hold } })
  const drainingPort = (await draining.frontend.listen()).port
  const busy = new RawConnection(drainingPort)
  const idle = new RawConnection(drainingPort)
  idle.send('GET /v2 HTTP/1.1\r\n\r\n')
  assert.equal(required(await idle.answer()).status, 200)
  busy.send(slowWire)
  await whenHeld(1)
  const drained = draining.frontend.drain()
  await idle.closed()
  assert.equal(await exchange(drainingPort, 'GET /v2 HTTP/1.1\r\n\r\n'), 'closed')
  const request = held[0] as InferenceRequest
  request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [1], new Uint8Array(4))]))
  const answer = required(await busy.answer())
  assert.equal(answer.status, 200)
  assert.equal(answer.headers['connection'], 'close')
  await busy.closed()
  await drained
  await draining.close()
})

test('a connection made just before the port drains gets an answer or a refusal, and so does half a request', async () => {
  const draining = await startHttpFixture()
  const drainingPort = (await draining.frontend.listen()).port
  const fresh = new RawConnection(drainingPort)
  const half = new RawConnection(drainingPort)
  const [head, body] = [`POST ${inferPath} HTTP/1.1\r\ncontent-length: ${inferBody.length}\r\n\r\n`, inferBody]
  half.send(head + body.slice(0, 10))
  await Promise.all([once(fresh.socket, 'connect'), once(half.socket, 'connect')])
  const late = new RawConnection(drainingPort)
  await once(late.socket, 'connect')
  const drained = draining.frontend.drain()
  await new Promise((resolve) => setImmediate(resolve))
  half.send(body.slice(10))
  for (const connection of [fresh, late]) connection.send('GET /v2/health/live HTTP/1.1\r\n\r\n')
  for (const connection of [fresh, late, half]) {
    const answer = await connection.answer()
    assert.ok(answer !== 'closed', `${[fresh, late, half].indexOf(connection)} was cut off`)
    assert.ok([200, 503].includes(answer.status))
    assert.equal(answer.headers['connection'], 'close')
    await connection.closed()
  }
  await drained
  await draining.close()
})

test('while draining a request on a connection that is still busy gets 503 Server exiting', async () => {
  held.length = 0
  const draining = await startHttpFixture({}, { slow: { config: slowConfig, run: hold } })
  const busy = new RawConnection((await draining.frontend.listen()).port)
  busy.send(slowWire)
  await whenHeld(1)
  const drained = draining.frontend.drain()
  const refused = await inject(draining.frontend, { method: 'POST', path: inferPath, body: inferBody })
  assert.equal(refused.status, 503)
  assert.equal(refused.body.toString(), '{"error":"Server exiting"}')
  const ready = await inject(draining.frontend, { method: 'GET', path: '/v2/health/ready' })
  assert.equal(ready.status, 503)
  busy.destroy()
  await drained
  await draining.close()
})

test('a port in use is refused with its number and the flag that moves it', async () => {
  const second = await startHttpFixture({ port })
  await assert.rejects(second.frontend.listen(), { code: 'UNAVAILABLE', message: new RegExp(`${port}.*--http-port`) })
  await second.close()
})

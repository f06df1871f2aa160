// The feeds of a real server: what they say, their bounds, and that they end with the server.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { after, before, test } from 'node:test'
import { until } from '../until.ts'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'

let server: ServerProcess

before(async () => {
  const flags = [`--model-repository=${exampleModels}`, '--log-verbose=1']
  server = await startServerProcess(flags)
})
after(() => server.stop())

const get = async (target: string): Promise<{ readonly status: number; readonly body: unknown }> => {
  const response = await fetch(server.url + target)
  return { status: response.status, body: await response.json() }
}

/** Sends a request and reads nothing. */
async function stalled(target: string): Promise<net.Socket> {
  const socket = net.connect(server.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(`GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`)
  return socket
}

const residentBytes = async (): Promise<number> => {
  const { body } = await get('/v2/health/detail')
  return (body as { memory: { rss_bytes: number } }).memory.rss_bytes
}

test('figures come each second, first all, then those that changed', async () => {
  const stop = new AbortController()
  const response = await fetch(`${server.url}/v2/live`, { signal: stop.signal })
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  let text = ''
  const decoder = new TextDecoder()
  for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(piece, { stream: true })
    if (text.split('event: figures').length > 3) break
  }
  stop.abort()
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data) as Record<string, never>)
  assert.equal(events[0]?.['model_control'], 'none')
  assert.ok('digits/1' in (events[1]?.['versions'] ?? {}))
  assert.deepEqual(events[2]?.['versions'], {})
  const { body } = await get('/v2/live/history')
  assert.equal((body as { interval_s: number }).interval_s, 5)
})

test('the log is found by level and text, and findings are those of galatea check', async () => {
  const { body } = await get('/v2/logs?level=info&q=successfully&model=digits')
  const { lines } = body as { lines: readonly { message: string }[] }
  assert.deepEqual(lines.map(({ message }) => message), ["successfully loaded 'digits'"]) // prettier-ignore
  const findings = (await get('/v2/repository/findings')).body as { models: string[]; findings: unknown[] }
  assert.deepEqual([findings.models, findings.findings], [['digit_image', 'digits', 'simple'], []])
  const one = (await get('/v2/repository/findings?model=digits')).body as { models: string[]; config: { text: string } }
  assert.deepEqual(one.models, ['digits'])
  assert.match(one.config.text, /^name: "digits"$/m)
  assert.equal((await get('/v2/repository/findings?model=..%2F..')).status, 404)
})

test('a query that is too long is refused, so is one that nobody knows', async () => {
  for (const query of [`q=${'x'.repeat(257)}`, 'colour=red', 'level=loud', 'limit=-1', 'follow=maybe']) {
    const { status } = await get(`/v2/logs?${query}`)
    assert.equal(status, 400, query)
  }
  assert.equal((await get('/v2/traces?min_ms=soon')).status, 400)
})

test('the 65th reader is refused, and those that leave make room', async () => {
  const sockets = await Promise.all(Array.from({ length: 64 }, () => stalled('/v2/live')))
  await until(async () => (await fetch(`${server.url}/v2/logs?follow=true`)).status === 503, 'the 65th is refused')
  for (const socket of sockets) socket.destroy()
  await until(async () => {
    const stop = new AbortController()
    const { status } = await fetch(`${server.url}/v2/live`, { signal: stop.signal })
    stop.abort()
    return status === 200
  }, 'there is room again')
})

test('readers that stall cost no more than a MiB each', async () => {
  const body = JSON.stringify({ inputs: [{ name: 'pixels', shape: [1, 64], datatype: 'FP32', data: Array.from({ length: 64 }, () => 1) }] }) // prettier-ignore
  // Every request writes lines at level verbose.
  const writeLines = async (): Promise<void> => {
    for (let i = 0; i < 1000; i++) await fetch(`${server.url}/v2/models/digits/infer`, { method: 'POST', body })
  }
  // Code and pages that requests need count before the readers come.
  await writeLines()
  const before = await residentBytes()
  const sockets = await Promise.all(Array.from({ length: 20 }, () => stalled('/v2/logs?follow=true&limit=5000')))
  await writeLines()
  const grown = (await residentBytes()) - before
  const mostGarbage = 32 * 1024 * 1024
  assert.ok(grown < 20 * 1024 * 1024 + mostGarbage, `${grown} bytes for 20 readers and the garbage of requests`)
  for (const socket of sockets) socket.destroy()
})

test('the server ends although somebody reads', async () => {
  const socket = await stalled('/v2/live')
  socket.resume()
  const closed = once(socket, 'close')
  const { code } = await server.stop()
  assert.equal(code, 0)
  await closed
})

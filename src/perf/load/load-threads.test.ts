import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { LoadLevel } from './load-order.ts'
import { LoadThreads, shareOfLevel, threadsForRate } from './load-threads.ts'

const level = (shape: LoadLevel['shape'], budget: number | null = null): LoadLevel => ({ shape, sequences: 4, budget })
const shares = (whole: LoadLevel, count: number): (LoadLevel | null)[] =>
  Array.from({ length: count }, (_, share) => shareOfLevel(whole, share, count))

test('lanes and requests are shared out to the last one; a thread without any has nothing to do', () => {
  const parts = shares(level({ kind: 'concurrency', lanes: 5 }, 11), 3)
  assert.deepEqual(parts.map((part) => part?.shape), [{ kind: 'concurrency', lanes: 2 }, { kind: 'concurrency', lanes: 2 }, { kind: 'concurrency', lanes: 1 }]) // prettier-ignore
  assert.deepEqual(parts.map((part) => part?.budget), [4, 4, 3]) // prettier-ignore
  assert.equal(shares(level({ kind: 'concurrency', lanes: 2 }), 3)[2], null)
  assert.equal(shares(level({ kind: 'concurrency', lanes: 3 }, 2), 3)[2], null)
})

test('rates add up: constant ones take turns, Poisson ones are each a part with a seed of its own', () => {
  const constant = shares(level({ kind: 'constant', ratePerSecond: 9, share: 0, shares: 1 }), 2)
  assert.deepEqual(constant[1]?.shape, { kind: 'constant', ratePerSecond: 9, share: 1, shares: 2 })
  const poisson = shares(level({ kind: 'poisson', ratePerSecond: 9, seed: 5 }), 3)
  assert.deepEqual(poisson[2]?.shape, { kind: 'poisson', ratePerSecond: 3, seed: 7 })
  assert.equal(shares(level({ kind: 'intervals', intervalsUs: [1] }), 2)[1], null)
})

test('a rate gets as many threads as its bytes need, one for each GiB of a second', () => {
  const request = (bytes: number): Parameters<typeof threadsForRate>[1][number] => ({
    head: Buffer.alloc(24),
    tail: Buffer.alloc(bytes - 24),
    stamp: null,
    compression: 'none',
    stream: 0,
    step: 0,
  })
  assert.equal(threadsForRate(1000, [request(1024)]), 1)
  assert.equal(threadsForRate(1024, [request(1024), request(1024 ** 2)]), 1)
  assert.equal(threadsForRate(1025, [request(1024 ** 2), request(1024)]), 2)
  assert.equal(threadsForRate(360, [request(9_633_792)]), 4)
})

test('threads make one load: what they did adds up to what was asked for', async (t) => {
  let count = 0
  const server = http.createServer((incoming, outgoing) => {
    incoming.resume()
    count++
    outgoing.end('ok')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => void server.close())
  const head = Buffer.from('POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi')
  const threads = new LoadThreads(
    {
      protocol: 'http',
      target: { host: '127.0.0.1', port: (server.address() as AddressInfo).port, tls: null },
      fields: [],
      requests: [[{ head, tail: Buffer.alloc(0), stamp: null, compression: 'none', stream: 0, step: 0 }]],
      expected: null,
      isDecoupled: false,
      sequence: null,
      isExporting: false,
    },
    2,
  )
  t.after(() => threads.close())
  await threads.begin(level({ kind: 'concurrency', lanes: 3 }, 101))
  await threads.spent
  const records = await threads.cut()
  await threads.end()
  assert.deepEqual(records.map((record) => record.count), [51, 50]) // prettier-ignore
  assert.equal(threads.doneCount, 101)
  assert.equal(count, 101)
})

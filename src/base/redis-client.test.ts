import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'
import * as redis from '@redis/client'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { until } from '../../test/until.ts'
import { boundAnswers, connectRedis } from './redis-client.ts'

test('a Redis that is connected and does not answer fails the command in time, and the next answer counts again', async (t) => {
  let isSilent = false
  const asked: Socket[] = []
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      if (bytes.includes('GET')) asked.push(socket)
      if (isSilent) return
      for (const _command of bytes.toString().matchAll(/^\*\d+\r$/gm)) socket.write('+OK\r\n')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  const address = { host: '127.0.0.1', port, user: '', password: '', database: 0, hasTls: false }
  const ready = Promise.withResolvers<void>()
  const clock = new ManualClock()
  const client = boundAnswers(
    connectRedis(redis, address, 5000, { onAway: ready.reject, onBack: ready.resolve }),
    clock,
    2e9,
  )
  t.after(() => client.destroy())
  await ready.promise
  assert.equal(String(await client.get('a')), 'OK')
  isSilent = true
  const late = assert.rejects(client.get('b'), /it did not answer within 2 s/)
  await until(() => asked.length >= 2, 'the second command')
  clock.advanceMs(2001)
  await late
  isSilent = false
  // The answer that was late, and its own.
  asked[1]?.write('+OK\r\n')
  assert.equal(String(await client.get('c')), 'OK')
})

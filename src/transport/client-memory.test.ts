import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { gzipSync, createUnzip } from 'node:zlib'

import { ClientMemory, ConnectionMemory } from './client-memory.ts'
import { RequestMemory } from './request-memory.ts'

const mib = 1024 * 1024

test('large requests leave a quarter of the budget to small ones', () => {
  const server = new ClientMemory(100 * mib)
  const connection = new ConnectionMemory(server)
  assert.ok(connection.reserve(75 * mib))
  assert.equal(connection.reserve(mib), false)
  assert.ok(connection.reserve(64 * 1024))
  assert.equal(server.requestBytes, 75 * mib + 64 * 1024)
})

test('unread answers and requests share one budget, and a connection that goes gives back its part', () => {
  const server = new ClientMemory(100 * mib)
  const [one, other] = [new ConnectionMemory(server), new ConnectionMemory(server)]
  one.changeAnswers(70 * mib)
  assert.equal(other.reserve(10 * mib), false)
  one.close()
  assert.ok(other.reserve(10 * mib))
  assert.deepEqual([server.requestBytes, server.answerBytes], [10 * mib, 0])
})

test('a connection is full at its share of requests or of unread answers; under pressure sooner', () => {
  const server = new ClientMemory(400 * mib)
  const one = new ConnectionMemory(server)
  one.reserve(101 * mib)
  assert.equal(one.isFull, false, 'halves of messages would wait for each other')
  one.inWorkCount = 1
  assert.ok(one.isFull)
  one.release(50 * mib)
  assert.equal(one.isFull, false)
  one.changeAnswers(10 * mib)
  assert.equal(one.isFull, false)
  one.changeAnswers(7 * mib)
  assert.ok(one.isFull)
  one.changeAnswers(-10 * mib)
  assert.equal(one.isFull, false)
  new ConnectionMemory(server).changeAnswers(60 * mib)
  assert.ok(one.isFull)
})

test('while the requests of all hold half of the budget, a connection waits at a small share, but never without work of its own', () => {
  const server = new ClientMemory(640 * mib)
  const connections = Array.from({ length: 4 }, () => new ConnectionMemory(server))
  const [one] = connections as [ConnectionMemory]
  for (const each of connections) each.inWorkCount = 1
  for (const each of connections) each.reserve(80 * mib)
  assert.equal(one.isFull, false)
  one.reserve(mib)
  assert.deepEqual(
    connections.map(({ isFull }) => isFull),
    [true, true, true, true],
  )
  one.release(72 * mib)
  assert.equal(one.isFull, false, 'a small share')
  one.reserve(72 * mib)
  one.inWorkCount = 0
  assert.equal(one.isFull, false, 'nothing of its own would end the wait')
})

test('a client that takes nothing gets no more answers under pressure; one that reads may be a quarter of the budget behind', () => {
  const server = new ClientMemory(400 * mib)
  const [reader, sleeper] = [new ConnectionMemory(server), new ConnectionMemory(server)]
  for (const one of [reader, sleeper]) {
    one.changeAnswers(20 * mib)
    one.sweep()
  }
  reader.changeAnswers(-mib)
  for (const one of [reader, sleeper]) one.sweep()
  // 39 MiB of 400 are no pressure yet.
  assert.deepEqual([reader.hasRoomForAnswer(8 * mib), sleeper.hasRoomForAnswer(8 * mib)], [true, true])
  reader.changeAnswers(30 * mib)
  assert.deepEqual([reader.hasRoomForAnswer(8 * mib), sleeper.hasRoomForAnswer(8 * mib)], [true, false])
  assert.equal(reader.hasRoomForAnswer(60 * mib), false)
  // A client that owes nothing gets its answer.
  sleeper.changeAnswers(-20 * mib)
  assert.ok(sleeper.hasRoomForAnswer(8 * mib))
})

const inflate = (server: ClientMemory, bytes: Buffer, memory: RequestMemory, limit = 64 * mib): Promise<unknown> =>
  new Promise((resolve) => {
    server.inflations.inflate(bytes, limit, createUnzip, memory, (failure, inflated) =>
      resolve(failure ?? inflated.length),
    )
  })
const requestOf = (server: ClientMemory): RequestMemory => new RequestMemory(new ConnectionMemory(server))
/** Inflates to `size` bytes, and is 1/50 of that. */
const compressed = (size: number): Buffer =>
  gzipSync(Buffer.concat([randomBytes(Math.floor(size / 50)), Buffer.alloc(size - Math.floor(size / 50))]))

test('a body that grows more than a hundredfold is refused above a few MiB', async () => {
  const server = new ClientMemory()
  const bomb = gzipSync(Buffer.alloc(20 * mib))
  assert.equal(await inflate(server, bomb, requestOf(server)), 'ratio')
  assert.equal(await inflate(server, gzipSync(Buffer.alloc(3 * mib)), requestOf(server)), 3 * mib)
  assert.equal(await inflate(server, compressed(5 * mib), requestOf(server), mib), 'limit')
})

test('a body may grow as often as the bound of the server says, and is inflated again with more room until then', async () => {
  const unbounded = new ClientMemory(400 * mib, null, Infinity)
  const zeros = gzipSync(Buffer.alloc(40 * mib))
  const [first, second] = [requestOf(unbounded), requestOf(unbounded)]
  assert.equal(await inflate(unbounded, zeros, first), 40 * mib)
  assert.equal(unbounded.requestBytes, 40 * mib)
  first.end()
  assert.equal(await inflate(unbounded, zeros, second, 30 * mib), 'limit')
  second.end()
  assert.deepEqual([unbounded.requestBytes, unbounded.inflatedBytes], [0, 0])
  const bounded = new ClientMemory(400 * mib, null, 500)
  assert.equal(await inflate(bounded, zeros, requestOf(bounded)), 'ratio')
})

test('inflated bodies are counted until their requests end, and the next ones wait for that', async () => {
  const server = new ClientMemory(64 * mib)
  const first = requestOf(server)
  const body = compressed(8 * mib)
  assert.equal(await inflate(server, body, first), 8 * mib)
  assert.equal(server.requestBytes, 8 * mib)
  const second = requestOf(server)
  const later = inflate(server, body, second)
  assert.equal(server.inflations.waitingCount, 1)
  first.end()
  assert.equal(server.inflations.waitingCount, 0)
  assert.equal(await later, 8 * mib)
  second.end()
  assert.deepEqual([server.requestBytes, server.inflatedBytes], [0, 0])
})

test('a request that ends before its turn is not inflated', async () => {
  const server = new ClientMemory(64 * mib)
  const [first, gone, last] = [requestOf(server), requestOf(server), requestOf(server)]
  const body = compressed(8 * mib)
  await inflate(server, body, first)
  void inflate(server, body, gone).then(() => assert.fail('nobody waits for it'))
  const third = inflate(server, body, last)
  gone.end()
  assert.equal(server.inflations.waitingCount, 1)
  first.end()
  assert.equal(await third, 8 * mib)
})

test('a request that has no room is refused before it is inflated', async () => {
  const server = new ClientMemory(64 * mib)
  new ConnectionMemory(server).reserve(47 * mib)
  assert.equal(await inflate(server, compressed(8 * mib), requestOf(server)), 'no-room')
  assert.equal(server.inflatedBytes, 0)
  assert.match(server.refuse(5), /--client-memory-limit/)
  assert.equal(server.refusedCount, 1)
})

test('requests press the budget when they hold half of it, or beside a GPU what is pinned', () => {
  const pinned = (mostBytes: number) => ({
    limitBytes: mostBytes,
    usedBytes: 0,
    take: () => null,
    giveBack: () => false,
  })
  const pressedFrom = (server: ClientMemory): number =>
    [32, 64, 100, 200].find((bytes) => server.isPressedBy(bytes * mib + 1)) ?? 0
  assert.equal(pressedFrom(new ClientMemory(400 * mib)), 200)
  assert.equal(pressedFrom(new ClientMemory(400 * mib, pinned(100 * mib))), 100)
  assert.equal(pressedFrom(new ClientMemory(400 * mib, pinned(300 * mib))), 200)
  assert.equal(pressedFrom(new ClientMemory(400 * mib, pinned(mib))), 64)
  assert.equal(pressedFrom(new ClientMemory(400 * mib, pinned(0))), 200, 'nothing is pinned')
})

// What stays in memory: after millions of requests, per connection, and per byte of requests that wait.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { createIdentityRepository } from '../test/e2e/identity-repository.ts'
import { startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import type { Bench, BenchSettings, Figure } from './bench.ts'
import { inferRequest } from './infer-request.ts'
import { onCore } from './pinning.ts'
import { residentMibOf } from './process-usage.ts'
import { SuiteLoad } from './suite-load.ts'
import { loadOf, workloads, type Transport, type Workload } from './suite-workloads.ts'

/** GALATEA_SOAK_REQUESTS: for a longer look, or a short one to see that it runs. */
const soakRequests = Number(process.env['GALATEA_SOAK_REQUESTS'] ?? 2_000_000)
const warmUpShare = 0.2
const connectionCount = 2000
const queuedMib = 64

export const bench: Bench = {
  name: 'soak',
  summary: 'memory after two million requests, per thousand connections, and per MiB of waiting requests',
  async run(settings) {
    await using repository = await createIdentityRepository()
    const flags = [`--model-repository=${repository.path}`, '--http-address=127.0.0.1']
    const figures: Figure[] = []
    {
      await using server = await startServerProcess(flags, { prefix: onCore(0) })
      figures.push(await connections(server, settings))
    }
    {
      await using server = await startServerProcess(flags, { prefix: onCore(0) })
      figures.push(await queued(server, settings))
    }
    await using server = await startServerProcess(flags, { prefix: onCore(0) })
    figures.push(await soak(server, settings))
    return figures
  },
}

/** The least of several moments without work: what the collector has not come round to yet does not count. */
async function restingMib(server: ServerProcess): Promise<number> {
  let least = Infinity
  for (let i = 0; i < 10; i++) {
    await pause(500)
    least = Math.min(least, residentMibOf(server.pid))
  }
  return least
}

async function soak(server: ServerProcess, { say }: BenchSettings): Promise<Figure> {
  await using load = new SuiteLoad(1)
  const workload = workloads.find(({ name }) => name === 'identity') as Workload
  const transports: readonly Transport[] = ['binary', 'json', 'grpc']
  for (const transport of transports) {
    await load.open(transport, loadOf(workload, transport, server, null))
  }
  let sent = 0
  const send = async (until: number): Promise<void> => {
    for (let turn = 0; sent < until; turn++) {
      const key = transports[turn % transports.length] as Transport
      const shape = { kind: 'concurrency', lanes: 64 } as const
      const run = await load.run(key, { shape, pid: server.pid, settleMs: 0, windowMs: 3000, atLeast: 1 })
      sent += run.requests
      if (turn % 10 === 9) say(`${sent} requests, ${residentMibOf(server.pid).toFixed(0)} MiB`)
    }
  }
  await send(soakRequests * warmUpShare)
  const before = await restingMib(server)
  const sentBefore = sent
  await send(sentBefore + soakRequests)
  const after = await restingMib(server)
  const detail = `${before.toFixed(1)} MiB at rest after ${sentBefore} requests, ${after.toFixed(1)} MiB after ${sent}, over HTTP binary, JSON and gRPC in turn`
  say(detail)
  const what = `growth over ${((sent - sentBefore) / 1e6).toFixed(1)} million requests`
  return { what, value: after - before, unit: 'MiB', target: { kind: 'at most', value: 16 }, detail }
}

/** Each has sent one request and waits. */
async function connections(server: ServerProcess, { say }: BenchSettings): Promise<Figure> {
  const values = new Float32Array(16)
  const request = inferRequest(
    'identity_fp32',
    [{ name: 'INPUT0', datatype: 'FP32', shape: [1, 16], values }],
    'binary',
  )
  const sockets: Socket[] = []
  const open = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      const socket = connect({ port: server.port, host: '127.0.0.1' })
      sockets.push(socket)
      socket.write(request)
      await once(socket, 'data')
    }
  }
  // The first ones pay for code that is compiled.
  await open(200)
  const before = await restingMib(server)
  await open(connectionCount)
  const after = await restingMib(server)
  for (const socket of sockets) socket.destroy()
  const value = ((after - before) * 1000) / connectionCount
  const detail = `${before.toFixed(1)} MiB with 200 connections, ${after.toFixed(1)} MiB with ${connectionCount} more that have sent one request each`
  say(detail)
  return { what: 'memory per 1,000 idle HTTP connections', value, unit: 'MiB', target: null, detail }
}

/** Requests of 1 MiB for a model that takes 100 ms for a batch of eight: nearly all of them wait. */
async function queued(server: ServerProcess, { say }: BenchSettings): Promise<Figure> {
  const values = new Float32Array((1024 * 1024) / 4)
  const input = { name: 'INPUT0', datatype: 'FP32', shape: [1, values.length], values }
  const request = inferRequest('identity_slow', [input], 'binary')
  const ask = async (socket: Socket): Promise<void> => {
    socket.write(request)
    // Until about as much has come back.
    for (let bytes = 0; bytes < values.byteLength;) bytes += ((await once(socket, 'data')) as [Buffer])[0].length
  }
  const sockets = Array.from({ length: queuedMib }, () => connect({ port: server.port, host: '127.0.0.1' }))
  await ask(sockets[0] as Socket)
  const before = await restingMib(server)
  let peak = before
  const poll = setInterval(() => (peak = Math.max(peak, residentMibOf(server.pid))), 5)
  await Promise.all(sockets.map((socket) => ask(socket)))
  clearInterval(poll)
  for (const socket of sockets) socket.destroy()
  const detail = `${before.toFixed(1)} MiB at rest, ${peak.toFixed(1)} MiB at most with ${queuedMib} requests of 1 MiB at once`
  say(detail)
  return {
    what: 'peak memory per MiB of requests that wait',
    value: (peak - before) / queuedMib,
    unit: 'MiB',
    target: null,
    detail,
  }
}

// Many connections, and bad ones, against a real server on loopback. Figures: docs/internals/http-limits.md.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'

import { createIdentityRepository } from './identity-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const wanted = 10_000
/** Descriptors that the runtime, the log and the models need beside the connections. */
const reserve = 500

const live = 'GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n'

const residentKiB = (server: ServerProcess): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1])

/** A connection that sends `text` and waits for the first bytes of an answer. */
function openConnection(port: number, text: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    socket.once('data', () => resolve(socket))
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the server closed a connection before it answered')))
  })
}

const answerOn = (socket: Socket): Promise<string> =>
  new Promise((resolve, reject) => {
    socket.once('data', (piece: Buffer) => resolve(piece.toString()))
    socket.once('close', () => reject(new Error('the server closed a connection it should have kept')))
    socket.write(live)
  })

test('10,000 idle connections are held, and the server serves others meanwhile', async (context) => {
  // Node has raised its own limit to the hard one; the server, a child, gets the same.
  const limit = Number(execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })) || wanted + reserve
  const count = Math.min(wanted, limit - reserve)
  if (count < wanted)
    context.diagnostic(`holding ${count}: this system allows ${limit} open files per process (ulimit -Hn)`)
  await using repository = await createIdentityRepository()
  const patience = ['--http-keep-alive-timeout-secs=600', '--http-body-idle-timeout-secs=600']
  await using server = await startServerProcess([`--model-repository=${repository.path}`, ...patience])
  const beforeKiB = residentKiB(server)
  const sockets: Socket[] = []
  context.after(() => sockets.forEach((socket) => socket.destroy()))
  while (sockets.length < count) {
    const wave = Math.min(200, count - sockets.length)
    sockets.push(...(await Promise.all(Array.from({ length: wave }, () => openConnection(server.port, live)))))
  }
  const heldKiB = residentKiB(server)
  const perConnection = ((heldKiB - beforeKiB) * 1024) / count
  context.diagnostic(
    `${count} connections held, server memory ${Math.round(beforeKiB / 1024)} → ${Math.round(heldKiB / 1024)} MiB, ` +
      `${Math.round(perConnection)} bytes each`,
  )
  assert.equal((await fetch(`${server.url}/v2/models/identity_fp32/ready`)).status, 200)
  assert.ok(sockets.every((socket) => !socket.destroyed))
  for (let i = 0; i < count; i += 97) assert.match(await answerOn(sockets[i] as Socket), /^HTTP\/1\.1 200 OK/)
  assert.ok(perConnection < 64 * 1024, `${perConnection} bytes per idle connection`)
})

test('slow headers, slow bodies and silent connections are closed in time, and good clients do not notice', async (context) => {
  await using repository = await createIdentityRepository()
  const impatience = [
    '--http-headers-timeout-secs=1',
    '--http-body-idle-timeout-secs=1',
    '--http-keep-alive-timeout-secs=1',
  ]
  await using server = await startServerProcess([`--model-repository=${repository.path}`, ...impatience])
  const post = 'POST /v2/models/identity_fp32/infer HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n{'
  const bad = { headers: 'GET /v2 HTTP/1.1\r\nA: b', body: post, silent: '' }
  const endings = Object.entries(bad).flatMap(([kind, text]) =>
    Array.from({ length: 100 }, () => {
      const socket = connect(server.port, '127.0.0.1', () => socket.write(text))
      let answer = ''
      socket.on('data', (piece: Buffer) => {
        answer += piece.toString()
      })
      socket.on('error', () => undefined)
      // A header byte every now and then does not help: the clock of the headers runs from the first.
      const drip = kind === 'headers' ? setInterval(() => socket.write('x'), 200) : undefined
      return new Promise<string>((resolve) => {
        socket.on('close', () => {
          clearInterval(drip)
          resolve(`${kind} ${answer.split(' ')[1] ?? 'closed'}`)
        })
      })
    }),
  )
  let served = 0
  const over = new AbortController()
  const good = (async () => {
    while (!over.signal.aborted) {
      assert.equal((await fetch(`${server.url}/v2/health/ready`)).status, 200)
      served++
    }
  })()
  const counts = new Map<string, number>()
  for (const ending of await Promise.all(endings)) counts.set(ending, (counts.get(ending) ?? 0) + 1)
  over.abort()
  await good
  context.diagnostic(`endings: ${JSON.stringify(Object.fromEntries(counts))}; ${served} good requests meanwhile`)
  assert.deepEqual(Object.fromEntries(counts), { 'headers 408': 100, 'body 408': 100, 'silent closed': 100 })
  assert.ok(served > 0)
})

// What the load generator itself costs: `galatea perf`'s connections against servers that only answer with fixed bytes
// (bench/trivial-responder.ts), beside node:http and node:http2 doing the same. CPU per request of the load's process is
// the figure; a core makes a million divided by it. `npx node bench/perf-load.bench.ts [rounds]`, pinned where possible.

import { spawn } from 'node:child_process'
import http from 'node:http'
import http2 from 'node:http2'
import { LoadThreads } from '../src/perf/load/load-threads.ts'
import { medianOf } from './bench.ts'
import { onCore, pinningText } from './pinning.ts'
import { startScript } from './start-script.ts'

type Measured = { readonly perSecond: number; readonly cpuUs: number }
type Protocol = 'http' | 'grpc'

const seconds = 1
const lanes = 32
const body = Buffer.alloc(300)
const fields = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/inference.GRPCInferenceService/ModelInfer'],
  [':authority', 'localhost'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
] as const

/** CPU is that of all threads of this process. */
async function timed(run: () => Promise<number>): Promise<Measured> {
  const cpu = process.cpuUsage()
  const startedMs = performance.now()
  const count = await run()
  const elapsed = (performance.now() - startedMs) / 1000
  const { user, system } = process.cpuUsage(cpu)
  return { perSecond: count / elapsed, cpuUs: (user + system) / count }
}

async function ours(protocol: Protocol, port: number): Promise<Measured> {
  const head = Buffer.from(
    `POST /v2/models/simple/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  const bytes = protocol === 'http' ? Buffer.concat([head, body]) : body
  const threads = new LoadThreads(
    {
      protocol,
      target: { host: '127.0.0.1', port, tls: null },
      fields,
      requests: [[{ head: bytes, tail: Buffer.alloc(0), stamp: null, compression: 'none', stream: 0, step: 0 }]],
      expected: null,
      isDecoupled: false,
      sequence: null,
      isExporting: false,
    },
    1,
  )
  await threads.begin({ shape: { kind: 'concurrency', lanes }, sequences: 1, budget: null })
  // The first half second is the compiler's.
  await new Promise((resolve) => setTimeout(resolve, 500))
  await threads.cut()
  const measured = await timed(async () => {
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    const [record] = await threads.cut()
    if (record === undefined || record.failed > 0) throw new Error(`requests failed: ${record?.failures.join()}`)
    return record.count
  })
  await threads.end()
  await threads.close()
  return measured
}

async function repeat(ask: () => Promise<void>): Promise<number> {
  let count = 0
  const endMs = performance.now() + seconds * 1000
  const loop = async (): Promise<void> => {
    while (performance.now() < endMs) {
      await ask()
      count++
    }
  }
  await Promise.all(Array.from({ length: lanes }, loop))
  return count
}

async function nodeHttp(port: number): Promise<Measured> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: lanes })
  const headers = { 'content-type': 'application/octet-stream', 'content-length': body.length }
  const measured = await timed(() =>
    repeat(
      () =>
        new Promise((resolve, reject) => {
          const request = http.request(
            { port, host: '127.0.0.1', agent, method: 'POST', path: '/', headers },
            (answer) => {
              answer.resume()
              answer.on('end', resolve)
            },
          )
          request.on('error', reject)
          request.end(body)
        }),
    ),
  )
  agent.destroy()
  return measured
}

async function nodeHttp2(port: number): Promise<Measured> {
  const sessions = Array.from({ length: Math.ceil(lanes / 6) }, () => http2.connect(`http://127.0.0.1:${port}`))
  const prefix = Buffer.from([0, 0, 0, body.length >> 8, body.length & 255])
  const message = Buffer.concat([prefix, body])
  let next = 0
  const measured = await timed(() =>
    repeat(
      () =>
        new Promise((resolve, reject) => {
          const session = sessions[next++ % sessions.length] as http2.ClientHttp2Session
          const stream = session.request(Object.fromEntries(fields))
          stream.on('error', reject)
          stream.resume()
          stream.on('close', resolve)
          stream.end(message)
        }),
    ),
  )
  for (const session of sessions) session.destroy()
  return measured
}

if (import.meta.main) {
  const rounds = Number(process.argv[2] ?? 5)
  // Threads that start now inherit the core; the responder has the other one.
  const pin = onCore(1)
  if (pin.length > 0) spawn('taskset', ['-acp', '1', String(process.pid)], { stdio: 'ignore' })
  process.stdout.write(`${rounds} rounds of ${seconds} s, medians, ${lanes} requests at once; ${pinningText}\n`)
  for (const protocol of ['http', 'grpc'] as const) {
    await using responder = await startScript('trivial-responder.ts', protocol)
    const results: Record<string, Measured[]> = {
      'galatea perf': [],
      [protocol === 'http' ? 'node:http' : 'node:http2']: [],
    }
    for (let round = 0; round < rounds; round++) {
      results['galatea perf']?.push(await ours(protocol, responder.port))
      if (protocol === 'http') results['node:http']?.push(await nodeHttp(responder.port))
      else results['node:http2']?.push(await nodeHttp2(responder.port))
    }
    for (const [name, all] of Object.entries(results)) {
      const cpuUs = medianOf(all.map((each) => each.cpuUs))
      const perSecond = medianOf(all.map((each) => each.perSecond))
      process.stdout.write(
        `  ${protocol} ${name.padEnd(14)} ${Math.round(perSecond)}/s measured, ${cpuUs.toFixed(1)} us CPU per request: ${Math.round(1e6 / cpuUs)}/s per core\n`,
      )
    }
  }
}

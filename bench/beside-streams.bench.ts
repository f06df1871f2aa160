// What small requests notice of long streams: their p99 alone, and beside clients that each read a stream of events that goes on for as
// long as they want.

import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, type Bench } from './bench.ts'
import { inferRequest } from './infer-request.ts'
import { OpenHttpLoad, quantile } from './open-http-load.ts'
import { onCore } from './pinning.ts'

const perSecond = 1000
const streamCount = 64
const wordsPerSecond = 20

const small = `backend: "identity"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 64 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 64 ] }
`
/** A word for every stream, each at its own time, as a language model gives them. */
const words = `
import { fromStrings } from 'galatea/model'
export const config = {
  decoupled: true,
  input: [{ name: 'PROMPT', dataType: 'BYTES', dims: [1] }],
  output: [{ name: 'WORD', dataType: 'BYTES', dims: [1] }],
}
export function execute(requests) {
  for (const { sender, signal } of requests) {
    const timer = setInterval(() => {
      if (!signal.aborted) return sender.send([fromStrings('WORD', [1], ['word '])])
      clearInterval(timer)
      sender.close()
    }, ${1000 / wordsPerSecond})
  }
}
`
const tensor = { name: 'INPUT0', datatype: 'FP32', shape: [64], values: new Float32Array(64) } as const

/** Reads and forgets the events of one stream. */
class StreamReader {
  readonly #socket: Socket
  events = 0

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.#socket.on('error', () => undefined)
    this.#socket.on('data', (chunk: Buffer) => {
      for (let at = chunk.indexOf('data: '); at >= 0; at = chunk.indexOf('data: ', at + 6)) this.events++
    })
  }

  async begin(): Promise<void> {
    await once(this.#socket, 'connect')
    const body = '{"PROMPT":"go on"}'
    this.#socket.write(
      `POST /v2/models/words/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    await once(this.#socket, 'data')
  }

  end(): void {
    this.#socket.destroy()
  }
}

export const bench: Bench = {
  name: 'beside-streams',
  summary: `p99 of ${perSecond} small requests a second beside ${streamCount} streams, to p99 without them`,
  async run({ rounds, secondsPerRun, say }) {
    const folder = await mkdtemp(path.join(tmpdir(), 'galatea-streams-'))
    for (const [name, files] of Object.entries({
      small: { 'config.pbtxt': small },
      words: { 'config.pbtxt': 'backend: "typescript"\n', '1/model.ts': words },
    })) {
      await mkdir(path.join(folder, name, '1'), { recursive: true })
      for (const [file, text] of Object.entries(files)) await writeFile(path.join(folder, name, file), text)
    }
    const server = await startServerProcess(['--model-repository', folder], { prefix: onCore(0) })
    const load = await OpenHttpLoad.open(server.port, 100, inferRequest('small', [tensor], 'binary'))
    try {
      const seconds = Math.max(4, secondsPerRun)
      const run = async (count: number): Promise<{ p50: number; p99: number; events: number }> => {
        const readers = Array.from({ length: count }, () => new StreamReader(server.port))
        await Promise.all(readers.map((reader) => reader.begin()))
        for (const reader of readers) reader.events = 0
        const { okMs } = await load.run(perSecond, seconds)
        const events = readers.reduce((sum, reader) => sum + reader.events, 0) / seconds
        for (const reader of readers) reader.end()
        return { p50: quantile(okMs, 0.5), p99: quantile(okMs, 0.99), events }
      }
      const { alone, beside } = await alternate(rounds, { alone: () => run(0), beside: () => run(streamCount) })
      const ratio = medianOf(beside.map(({ p99 }, i) => p99 / (alone[i]?.p99 ?? p99)))
      const show = (rows: readonly { p50: number; p99: number }[]): string =>
        `p50 ${medianOf(rows.map(({ p50 }) => p50)).toFixed(2)} ms, p99 ${medianOf(rows.map(({ p99 }) => p99)).toFixed(2)} ms`
      const events = medianOf(beside.map((row) => row.events)).toFixed(0)
      const detail = `alone ${show(alone)}; beside ${streamCount} streams ${show(beside)}, which get ${events} events/s`
      say(detail)
      return [{ what: 'p99 beside long streams', value: ratio, unit: '×', target: null, detail }]
    } finally {
      load[Symbol.dispose]()
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    }
  },
}

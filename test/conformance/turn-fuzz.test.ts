// No request holds the loop: hostile messages to every RPC and every endpoint, plain and compressed, alone and many at a
// time, and the longest turn of the server's event loop as CPU time. A new route or RPC is tried without being named here.

import assert from 'node:assert/strict'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import http2 from 'node:http2'
import net from 'node:net'
import { after, before, test, type TestContext } from 'node:test'
import { gzipSync } from 'node:zlib'

import type { MessageSchema } from '../../src/protobuf/message-schema.ts'
import { ProtobufWriter } from '../../src/protobuf/protobuf-writer.ts'
import { servingFiles, servingMessage } from '../../src/protocol/tfserving/serving-messages.ts'
import { wireFiles, wireMessage, type WireFile } from '../../src/protocol/grpc/wire-schema.ts'
import { hostileBodies, hostileMessages } from './hostile-messages.ts'
import type { MeasuredPorts, MeasuredQuestion } from './measured-server.ts'

const longestTurnUs = 50_000
/** What the fixed piece of work of the measured server costs where no other program disturbs it. */
const fixedWorkUs = 5000
const mostControlBytes = 1024 * 1024
/** A request that is not answered by then is given up, and its turns count all the same. */
const hangMs = 60_000
/** What one connection sends at a time. */
const mostBurstBytes = 64 * 1024

let server: ChildProcess
let ports: MeasuredPorts
before(async () => {
  server = fork(new URL('measured-server.ts', import.meta.url), ['200'], { execArgv: [] })
  ports = ((await once(server, 'message')) as [MeasuredPorts])[0]
})
after(async () => {
  const ended = once(server, 'exit')
  server.disconnect()
  await ended
})

/** The longest turn since the last call, or what a fixed piece of work costs now, in µs of CPU time. */
async function ask(question: MeasuredQuestion): Promise<number> {
  const told = once(server, 'message') as Promise<[number]>
  server.send(question)
  return (await told)[0]
}

const mostTries = 6

/**
 * Notes the longest turns of many tries. A try that is too long is made again: the first one may have compiled code, or
 * collected garbage of others. The limit is that of a processor on which the fixed piece of work costs what it should;
 * on a slower one, or one that others use, the limit grows with the cost of that work.
 */
class Turns {
  readonly #longest: [us: number, what: string][] = []
  readonly #tooLong: string[] = []

  async try(what: string, act: () => Promise<void>): Promise<void> {
    await act()
    let us = await ask('longest turn')
    this.#longest.push([us, what])
    let limitUs = longestTurnUs
    for (let tries = 1; us > limitUs && tries < mostTries; tries++) {
      const slowness = (await ask('fixed work')) / fixedWorkUs
      limitUs = Math.max(limitUs, longestTurnUs * slowness)
      await act()
      us = Math.min(us, await ask('longest turn'))
    }
    if (us > limitUs) this.#tooLong.push(`${Math.round(us / 1000)} ms, not ${Math.round(limitUs / 1000)}: ${what}`)
  }

  report(context: TestContext): void {
    this.#longest.sort(([a], [b]) => b - a)
    context.diagnostic(`${this.#longest.length} tries; the longest turns at the first try, in ms of CPU time:`)
    for (const [us, what] of this.#longest.slice(0, 8)) context.diagnostic(`${(us / 1000).toFixed(1)} ${what}`)
    assert.deepEqual(this.#tooLong, [])
  }
}

/** Sends requests on one connection in one write, and reads until all are answered or the server hangs up. */
async function exchange(request: Buffer, count: number, port = ports.httpPort): Promise<void> {
  const socket = net.connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  let answers = 0
  let tail = ''
  socket.on('data', (piece: Buffer) => {
    const text = tail + piece.toString('latin1')
    answers += text.split('HTTP/1.1 ').length - 1
    tail = text.slice(-8)
    if (answers >= count) socket.end()
  })
  socket.write(count === 1 ? request : Buffer.concat(Array.from({ length: count }, () => request)))
  const timer = setTimeout(() => socket.destroy(), hangMs)
  await once(socket, 'close')
  clearTimeout(timer)
}

const httpRequest = (method: string, path: string, body: Buffer, headers = ''): Buffer =>
  Buffer.concat([
    Buffer.from(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n${headers}\r\n`),
    body,
  ])

test('no body to any endpoint holds the loop', { timeout: 300_000 }, async (context) => {
  const turns = new Turns()
  const bodies = [...hostileBodies(250 * 1024)].map(([what, make]) => [what, make(), gzipSync(make())] as const)
  for (const { port, path, methods } of ports.routes) {
    // An endpoint with a version, a stream of a generation and a classification read their bodies as an endpoint in this
    // list does; endpoints that read no tensors read small bodies in the same few ways. Each gets some of the bodies.
    const isReader = /models\/\{model\}(\/infer|\/generate|:predict)$/.test(path)
    for (const model of isReader ? ['words', 'numbers'] : ['numbers']) {
      const target = path
        .replaceAll(/\[.*?\]/g, '')
        .replace('{model}', model)
        .replaceAll(/\{\w+\}/g, '1')
        .replace('*', '/x')
      const method = methods.at(-1) ?? 'GET'
      for (const [i, [what, body, packed]] of bodies.entries()) {
        if (!isReader && i % 12 !== path.length % 12) continue
        const plain = httpRequest(method, target, body)
        await turns.try(`${method} ${target}: ${what}`, () => exchange(plain, 1, port))
        // Many at once share the turns in one way, whatever they hold: readers get every body, others one of theirs.
        if (isReader ? i % 2 === (model === 'words' ? 0 : 1) : i < 12) {
          const short = httpRequest(method, target, packed, 'Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n')
          const count = Math.min(20, Math.floor(mostBurstBytes / short.length))
          if (count < 2 || what === 'long numbers') continue
          await turns.try(`${method} ${target}: ${what}, compressed, ${count} at once`, () =>
            exchange(short, count, port),
          )
        }
      }
      const small = httpRequest(method, target, Buffer.from('{}'), 'Accept-Encoding: gzip\r\n')
      await turns.try(`${method} ${target}, 400 at once`, () => exchange(small, 400, port))
    }
  }
  turns.report(context)
})

const tensorHeader = (classes: number): string =>
  JSON.stringify({
    inputs: [{ name: 'X', datatype: 'FP32', shape: [1_000_000], parameters: { binary_data_size: 4_000_000 } }],
    outputs: [{ name: 'Y', parameters: classes > 0 ? { classification: classes } : { binary_data: false } }],
  })

test('no large answer holds the loop', { timeout: 120_000 }, async (context) => {
  const turns = new Turns()
  const floats = Buffer.alloc(4_000_000, Buffer.from(Float32Array.of(0.1, 1.3, 7e-9).buffer))
  for (const classes of [0, 10, 1_000_000]) {
    const header = tensorHeader(classes)
    const body = Buffer.concat([Buffer.from(header), floats])
    const length = `Inference-Header-Content-Length: ${header.length}\r\n`
    const request = httpRequest('POST', '/v2/models/numbers/infer', body, length)
    await turns.try(`infer with ${classes} classes`, () => exchange(request, 1))
  }
  for (const path of ['generate', 'generate_stream']) {
    const request = httpRequest('POST', `/v2/models/words/${path}`, Buffer.from(`{"X":"${'\\n'.repeat(8e6)}"}`))
    await turns.try(path, () => exchange(request, 1))
  }
  const predict = httpRequest('POST', '/v1/models/words:predict', Buffer.from(`{"inputs":["${'x'.repeat(8e6)}"]}`))
  await turns.try('predict', () => exchange(predict, 1))
  for (const rpc of ['ModelInfer', 'ModelStreamInfer']) {
    const path = `/inference.GRPCInferenceService/${rpc}`
    // A stream ranks as a call does: it need not rank as many.
    const classes = rpc === 'ModelInfer' ? 1_000_000 : 200_000
    await turns.try(`${rpc} with ${classes} classes`, () => calls(path, inferMessage(floats, classes), false, 1))
    await turns.try(`${rpc} with classes, eight at once`, () => calls(path, inferMessage(floats, 1000), true, 8))
  }
  turns.report(context)
})

function inferMessage(raw: Buffer, classes: number): Buffer {
  const writer = new ProtobufWriter()
  writer.textField(1, 'numbers')
  writer.nested(5, () => {
    writer.textField(1, 'X')
    writer.textField(2, 'FP32')
    writer.integerField(3, raw.length / 4)
  })
  writer.nested(6, () => {
    writer.textField(1, 'Y')
    writer.nested(2, () => {
      writer.textField(1, 'classification')
      writer.nested(2, () => writer.integerField(2, classes))
    })
  })
  writer.tag(7, 2)
  writer.raw(raw)
  return Buffer.from(writer.finish())
}

/** The same call several times at once on one connection. */
async function calls(path: string, message: Buffer, isPacked: boolean, count: number): Promise<void> {
  const session = http2.connect(`http://127.0.0.1:${ports.grpcPort}`, { settings: { initialWindowSize: 2 ** 24 } })
  session.on('error', () => undefined)
  const packed = isPacked ? gzipSync(message) : message
  const body = Buffer.alloc(5 + packed.length)
  body[0] = isPacked ? 1 : 0
  body.writeUInt32BE(packed.length, 1)
  packed.copy(body, 5)
  const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' }
  const ended = Array.from({ length: count }, async () => {
    const stream = session.request(isPacked ? { ...headers, 'grpc-encoding': 'gzip' } : headers)
    stream.on('error', () => undefined)
    stream.resume()
    stream.end(body)
    // A watch of the health has no end of its own.
    const timer = setTimeout(() => stream.close(), path.endsWith('/Watch') ? 50 : hangMs)
    await once(stream, 'close')
    clearTimeout(timer)
  })
  await Promise.all(ended)
  session.close()
}

const rpcsOf = (files: readonly WireFile[], schemaOf: typeof wireMessage): { path: string; schema: MessageSchema }[] =>
  files.flatMap(({ package: name, services }) =>
    Object.entries(services).flatMap(([service, rows]) =>
      Object.entries(rows).map(([rpc, [request]]) => ({
        path: `/${name}.${service}/${rpc}`,
        schema: schemaOf(request.replace('stream ', '')),
      })),
    ),
  )
const rpcs = [...rpcsOf(wireFiles, wireMessage), ...rpcsOf(servingFiles, servingMessage)]

test('the tables name every method that the server has', () => {
  assert.deepEqual(rpcs.map(({ path }) => path).toSorted(), [...ports.grpcPaths].sort())
})

test('no message to any RPC holds the loop', { timeout: 300_000 }, async (context) => {
  const turns = new Turns()
  const tried = new Set<string>()
  for (const [index, { path, schema }] of rpcs.entries()) {
    let count = index
    for (const [what, make, inner] of hostileMessages(schema, mostControlBytes - 64, 2)) {
      // A message that two methods read in the same way is tried with one of them.
      if (path.endsWith('ModelStreamInfer') || path.includes('v1alpha')) break
      // A message inside of others is read by one table: all ways to fill it are tried with the first of them. What the
      // method makes of a value differs: texts and digits are tried in every field. Of the rest each method gets a part.
      const isNew = inner !== null && !tried.has(inner)
      if (inner !== null) tried.add(inner)
      const isEveryField = inner === null && /: (texts, many times|digits|many keys)$/.test(what)
      count++
      if (isNew ? tried.size > 30 && count % 3 !== 0 : !isEveryField && count % 6 !== 0) continue
      const bytes = make()
      await turns.try(`${path} ${what}, 4 at once`, () => calls(path, bytes, true, 4))
    }
    await turns.try(`${path}, 200 at once`, () => calls(path, Buffer.alloc(0), false, 200))
  }
  turns.report(context)
})

test('no message of 60 MiB holds the loop', { timeout: 300_000 }, async (context) => {
  const turns = new Turns()
  // Compressed they would be refused for their ratio.
  for (const rpc of ['ModelInfer', 'RepositoryModelLoad']) {
    const path = `/inference.GRPCInferenceService/${rpc}`
    for (const [what, make] of hostileMessages(wireMessage(`${rpc}Request`), 60e6, 0)) {
      if (!/^unknown|^id: (empty|texts)|^parameters: (one|texts)|^raw_input_contents: (empty|digits)/.test(what))
        continue
      const bytes = make()
      await turns.try(`${rpc} ${what}, 60 MiB`, () => calls(path, bytes, false, 1))
    }
  }
  turns.report(context)
})

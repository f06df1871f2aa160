// A process that calls one server with gRPC and counts: over plain node:http2, so that the load costs less than what it
// measures. Ordered about by its parent with messages.

import http2 from 'node:http2'

export type GrpcLoadOrder =
  | {
      readonly kind: 'open'
      readonly port: number
      readonly connections: number
      readonly concurrency: number
      readonly message: Buffer
      readonly isStream: boolean
    }
  | { readonly kind: 'run'; readonly seconds: number }
export type GrpcLoadResult = { readonly calls: number; readonly seconds: number; readonly p50Us: number }
export type GrpcLoadReport =
  | { readonly kind: 'ready' }
  | { readonly kind: 'ran'; readonly result: GrpcLoadResult }
  | { readonly kind: 'failed'; readonly reason: string }

let sessions: http2.ClientHttp2Session[] = []
let settings: Extract<GrpcLoadOrder, { kind: 'open' }> | null = null

const report = (message: GrpcLoadReport): void => void process.send?.(message)
const fail = (reason: unknown): void => report({ kind: 'failed', reason: String(reason) })

const headers = (isStream: boolean): http2.OutgoingHttpHeaders => ({
  ':method': 'POST',
  ':path': `/inference.GRPCInferenceService/${isStream ? 'ModelStreamInfer' : 'ModelInfer'}`,
  'content-type': 'application/grpc',
  te: 'trailers',
})

function open(order: Extract<GrpcLoadOrder, { kind: 'open' }>): void {
  settings = order
  sessions = Array.from({ length: order.connections }, () => {
    const session = http2.connect(`http://127.0.0.1:${order.port}`)
    session.on('error', fail)
    return session
  })
  report({ kind: 'ready' })
}

async function run(seconds: number): Promise<void> {
  const order = settings
  if (order === null) throw new Error('no connections are open')
  const frame = Buffer.alloc(5 + order.message.length)
  frame.writeUInt32BE(order.message.length, 1)
  Buffer.from(order.message).copy(frame, 5)
  const endMs = performance.now() + seconds * 1000
  const waits: number[] = []
  const startMs = performance.now()
  const worker = order.isStream ? streamWorker : unaryWorker
  await Promise.all(
    Array.from({ length: order.concurrency }, (_, i) =>
      worker(sessions[i % sessions.length] as http2.ClientHttp2Session, frame, endMs, waits),
    ),
  )
  waits.sort((a, b) => a - b)
  const result = {
    calls: waits.length,
    seconds: (performance.now() - startMs) / 1000,
    p50Us: (waits[waits.length >> 1] ?? 0) * 1000,
  }
  report({ kind: 'ran', result })
}

async function unaryWorker(
  session: http2.ClientHttp2Session,
  frame: Buffer,
  endMs: number,
  waits: number[],
): Promise<void> {
  while (performance.now() < endMs) {
    const begunMs = performance.now()
    await new Promise<void>((resolve, reject) => {
      const stream = session.request(headers(false))
      let status = ''
      stream.on('trailers', (trailers) => (status = String(trailers['grpc-status'])))
      stream.on('data', () => undefined)
      stream.on('error', reject)
      stream.on('close', () => (status === '0' ? resolve() : reject(new Error(`status '${status}'`))))
      stream.end(frame)
    })
    waits.push(performance.now() - begunMs)
  }
}

async function streamWorker(
  session: http2.ClientHttp2Session,
  frame: Buffer,
  endMs: number,
  waits: number[],
): Promise<void> {
  const stream = session.request(headers(true))
  await new Promise<void>((resolve, reject) => {
    let begunMs = performance.now()
    let expected = -1
    let got = 0
    stream.on('data', (chunk: Buffer) => {
      // One message is on its way at a time: its length is in the first chunk.
      if (expected < 0) expected = 5 + chunk.readUInt32BE(1)
      got += chunk.length
      if (got < expected) return
      waits.push(performance.now() - begunMs)
      begunMs = performance.now()
      expected = -1
      got = 0
      if (begunMs < endMs) stream.write(frame)
      else stream.end()
    })
    stream.on('error', reject)
    stream.on('close', resolve)
    stream.write(frame)
  })
}

process.on('message', (order: GrpcLoadOrder) => {
  if (order.kind === 'open') open(order)
  else run(order.seconds).catch(fail)
})
process.on('disconnect', () => process.exit(0))

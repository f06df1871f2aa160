// Servers that do nothing but answer, to find out what the load generator itself can do: fixed bytes for every request,
// over HTTP/1.1 and over HTTP/2 as gRPC uses it. `npx node bench/trivial-responder.ts http|grpc`.

import { createServer, type AddressInfo, type Socket } from 'node:net'

const tensor = Buffer.alloc(64)

const httpAnswer = Buffer.concat([
  Buffer.from(`HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: ${tensor.length}\r\n\r\n`),
  tensor,
])

/** Requests of a connection are all as long as its first one. */
function answerHttp(socket: Socket): void {
  let requestBytes = 0
  let received = 0
  socket.on('data', (chunk: Buffer) => {
    if (requestBytes === 0) {
      const text = chunk.toString('latin1')
      requestBytes = text.indexOf('\r\n\r\n') + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1])
    }
    received += chunk.length
    for (; received >= requestBytes; received -= requestBytes) socket.write(httpAnswer)
  })
}

const frame = (type: number, flags: number, payload: Buffer): Buffer => {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  return Buffer.concat([head, payload])
}

const literal = (name: string, value: string): Buffer =>
  Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)])

const message = Buffer.concat([Buffer.from([0, 0, 0, 0, tensor.length]), tensor])
const answerFrames = [
  frame(1, 4, Buffer.concat([Buffer.from([0x88]), literal('content-type', 'application/grpc')])),
  frame(0, 0, message),
  frame(1, 5, literal('grpc-status', '0')),
]
const grpcAnswer = Buffer.concat(answerFrames)
const idPlaces = [5, (answerFrames[0] as Buffer).length + 5, grpcAnswer.length - (answerFrames[2] as Buffer).length + 5]

/** The preface has 24 bytes; settings are not looked at, because the client sends little. */
function answerGrpc(socket: Socket): void {
  let rest: Buffer = Buffer.alloc(0)
  let skipped = 0
  socket.write(frame(4, 0, Buffer.alloc(0)))
  let receivedBytes = 0
  socket.on('data', (chunk: Buffer) => {
    let bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    if (skipped < 24) {
      if (bytes.length < 24) {
        rest = bytes
        return
      }
      bytes = bytes.subarray(24)
      skipped = 24
    }
    const answers: Buffer[] = []
    let at = 0
    while (bytes.length - at >= 9) {
      const end = at + 9 + bytes.readUIntBE(at, 3)
      if (end > bytes.length) break
      const type = bytes[at + 3]
      const flags = bytes[at + 4] as number
      if (type === 4 && (flags & 1) === 0) answers.push(frame(4, 1, Buffer.alloc(0)))
      if (type === 0) {
        receivedBytes += end - at - 9
        if ((flags & 1) !== 0) {
          const answer = Buffer.from(grpcAnswer)
          for (const place of idPlaces) bytes.copy(answer, place, at + 5, at + 9)
          answers.push(answer)
        }
      }
      at = end
    }
    if (receivedBytes > 16_384) {
      const room = Buffer.alloc(4)
      room.writeUInt32BE(receivedBytes)
      answers.push(frame(8, 0, room))
      receivedBytes = 0
    }
    rest = at === bytes.length ? Buffer.alloc(0) : Buffer.from(bytes.subarray(at))
    if (answers.length > 0) socket.write(answers.length === 1 ? (answers[0] as Buffer) : Buffer.concat(answers))
  })
}

if (import.meta.main) {
  const server = createServer({ noDelay: true }, process.argv[2] === 'grpc' ? answerGrpc : answerHttp)
  server.on('connection', (socket) => socket.on('error', () => socket.destroy()))
  server.listen(0, '127.0.0.1', () => {
    process.stdout.write(`listening at 127.0.0.1:${(server.address() as AddressInfo).port}\n`)
  })
  process.on('SIGTERM', () => process.exit(0))
}

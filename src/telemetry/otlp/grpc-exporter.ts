import type { ClientHttp2Session } from 'node:http2'
import { exportTimeoutMs } from './http-exporter.ts'
import type { SpanExporter } from './span-processor.ts'

const method = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'
const prefixBytes = 5

/** OTLP over gRPC: one call per batch, over a connection that is kept while it lasts. */
export function createGrpcExporter(origin: URL, headers: Readonly<Record<string, string>>): SpanExporter {
  let session: ClientHttp2Session | null = null
  const open = (): ClientHttp2Session => {
    if (session !== null && !session.closed && !session.destroyed) return session
    // Not imported: most servers export no spans.
    const opened = process.getBuiltinModule('node:http2').connect(origin)
    // The open call gets the error too. Without this listener the error would end the server.
    opened.on('error', () => opened.destroy())
    opened.on('goaway', () => opened.close())
    // An idle connection to a collector must not keep the process alive.
    opened.unref()
    session = opened
    return opened
  }
  return {
    send: (body) =>
      new Promise((resolve, reject) => {
        const call = open().request({
          ...headers,
          ':method': 'POST',
          ':path': method,
          'content-type': 'application/grpc',
          te: 'trailers',
        })
        call.setTimeout(exportTimeoutMs, () => call.destroy(new Error(`no answer within ${exportTimeoutMs} ms`)))
        let status: string | undefined
        let message = ''
        const read = (fields: Readonly<Record<string, unknown>>): void => {
          const { 'grpc-status': code, 'grpc-message': text } = fields
          if (typeof code === 'string') status = code
          if (typeof text === 'string') message = `: ${text}`
        }
        call.on('response', read)
        call.on('trailers', read)
        call.on('error', reject)
        call.on('close', () => {
          if (status === '0') resolve()
          else reject(new Error(`the collector answered with gRPC status ${status ?? 'unknown'}${message}`))
        })
        call.resume()
        const frame = Buffer.alloc(prefixBytes + body.length)
        frame.writeUInt32BE(body.length, 1)
        frame.set(body, prefixBytes)
        call.end(frame)
      }),
    close: () => session?.destroy(),
  }
}

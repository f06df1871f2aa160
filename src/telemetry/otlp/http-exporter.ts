import type { SpanExporter } from './span-processor.ts'

/** The time limit of a whole exchange. */
export const exportTimeoutMs = 10_000

/** OTLP over HTTP: one POST of protobuf per batch, over a connection that is kept. */
export function createHttpExporter(url: URL, headers: Readonly<Record<string, string>>): SpanExporter {
  // Not imported: most servers export no spans, and loading the module costs memory and CPU at the start.
  const { Agent, request: open } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http')
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  return {
    send: (body) =>
      new Promise((resolve, reject) => {
        const request = open(url, {
          method: 'POST',
          agent,
          signal: AbortSignal.timeout(exportTimeoutMs),
          headers: { ...headers, 'Content-Type': 'application/x-protobuf', 'Content-Length': body.length },
        })
        request.on('error', reject)
        request.on('response', (response) => {
          const { statusCode = 0 } = response
          // The body is read to its end, so that the connection can be used again.
          response.on('error', reject)
          response.on('end', () => {
            if (statusCode >= 200 && statusCode < 300) resolve()
            else reject(new Error(`the collector answered ${statusCode}`))
          })
          response.resume()
        })
        request.end(body)
      }),
    close: () => agent.destroy(),
  }
}

// `GET /metrics` on a port of its own.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { encodeErrorBody } from '../../protocol/error-body.ts'

export type MetricsOptions = {
  /** `--metrics-address` */
  readonly address: string
  /** `--metrics-port`; 0 lets the system choose one. */
  readonly port: number
}

export type MetricsDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** The page, piece by piece. */
  pieces(): Iterable<string>
}

/** Longer than this the page must not hold the main thread before others had their turn. */
const sliceNs = 4e6

const pageType = 'text/plain; charset=utf-8'
const gzipAsync = promisify(gzip)
/** Named, and not with a weight of nothing. */
const gzipPattern = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/

export class MetricsFrontend {
  readonly #log: Log
  readonly #clock: Clock
  readonly #pieces: () => Iterable<string>
  readonly #options: MetricsOptions
  readonly #server: Server
  /** The page being written; those who ask meanwhile get the same one. */
  #page: Promise<Buffer> | null = null

  constructor(dependencies: MetricsDependencies, options: MetricsOptions) {
    this.#log = dependencies.log.from('metrics-frontend.ts')
    this.#clock = dependencies.clock
    this.#pieces = () => dependencies.pieces()
    this.#options = options
    this.#server = createServer({ maxHeaderSize: 16 * 1024, headersTimeout: 10_000, requestTimeout: 30_000 })
    this.#server.maxConnections = 256
    this.#server.on('request', (request, response) => void this.#answer(request, response))
  }

  /** Where it listens, with the real port when 0 was asked for. */
  async listen(): Promise<{ address: string; port: number }> {
    const { address, port } = this.#options
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (reason) => {
        const message = `failed to listen for metrics at ${address}:${port}: ${messageOf(reason)}. Use --metrics-port for another port, or --allow-metrics=false.`
        reject(new ServerError('UNAVAILABLE', message))
      })
      this.#server.listen(port, address, resolve)
    })
    const at = this.#server.address() as AddressInfo
    return { address: at.address, port: at.port }
  }

  /** Ends every connection at once. Twice is fine. */
  async close(): Promise<void> {
    if (!this.#server.listening) return
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A body has no meaning here and is not read.
    request.resume()
    try {
      if (request.method !== 'GET') {
        send(response, 405, 'text/plain', encodeErrorBody('Method Not Allowed'))
        return
      }
      const path = (request.url ?? '').split('?')[0] ?? ''
      // Triton answers every other path with an empty page.
      const page = path === '/metrics' || path === '/metrics/' ? await this.#currentPage() : Buffer.alloc(0)
      const accepted = request.headers['accept-encoding'] ?? ''
      const acceptsGzip = gzipPattern.test(accepted)
      if (acceptsGzip && page.length > 1024) {
        response.setHeader('Content-Encoding', 'gzip')
        send(response, 200, pageType, await gzipAsync(page))
      } else send(response, 200, pageType, page)
    } catch (reason) {
      this.#log.error('metrics page failed', { reason: messageOf(reason) })
      if (!response.headersSent)
        send(response, 500, 'text/plain', encodeErrorBody('internal error of the metrics page'))
    }
  }

  #currentPage(): Promise<Buffer> {
    this.#page ??= this.#write().finally(() => {
      this.#page = null
    })
    return this.#page
  }

  async #write(): Promise<Buffer> {
    const parts: string[] = []
    let sliceEndNs = this.#clock.nowNs() + sliceNs
    for (const piece of this.#pieces()) {
      parts.push(piece)
      if (this.#clock.nowNs() < sliceEndNs) continue
      await new Promise((resolve) => setImmediate(resolve))
      sliceEndNs = this.#clock.nowNs() + sliceNs
    }
    return Buffer.from(parts.join(''))
  }
}

function send(response: ServerResponse, status: number, type: string, body: Uint8Array): void {
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': body.length })
  response.end(body)
}
